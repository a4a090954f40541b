"""Which sessions are open."""

from triocollect.protocol.ids import EpisodeId
from triocollect.servers.resources.sessions import Sessions


def test_of_sessions_that_nobody_closes_those_used_last_stay():
    sessions = Sessions(most=2)
    first, second, third = (EpisodeId(f"{n}-0") for n in range(3))
    cookie = sessions.open(first, 1).cookie
    forgotten = sessions.open(second, 2).cookie
    assert sessions.find(None, cookie).state == 1
    sessions.open(third, 3)
    assert [sessions.find(episode, None) is None for episode in (first, second, third)] == [
        False,
        True,
        False,
    ]
    assert sessions.find(None, forgotten) is None
    assert len(sessions) == 2
