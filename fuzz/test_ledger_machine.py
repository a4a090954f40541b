"""No attempt flies twice, whatever happens to a row."""

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import EpisodeId, RowKey

keys = st.builds(RowKey, st.integers(0, 2), st.integers(0, 1))


class Lives(RuleBasedStateMachine):
    """Several runs over one data set; a crash keeps what was written and what is known to be used."""

    def __init__(self):
        super().__init__()
        self.ledger, self.arrived, self.done = Ledger(), set[EpisodeId](), set[RowKey]()

    @rule(key=keys)
    def start(self, key):
        if key in self.ledger.flying or key in self.done:
            return
        expected = self.ledger.next_attempt(key)
        episode = self.ledger.start(key, str(key))
        assert episode.attempt == expected
        assert episode not in self.arrived, "an attempt flew twice"

    def land(self, nth):
        return sorted(self.ledger.flying)[nth % len(self.ledger.flying)]

    @precondition(lambda self: self.ledger.flying)
    @rule(nth=st.integers(0, 5))
    def nothing_arrived(self, nth):
        key = self.land(nth)
        continuing, torn, episode = (
            key in self.ledger.continuing,
            key in self.ledger.torn,
            self.ledger.flying[key],
        )
        self.ledger.nothing_ran(key)
        assert (key in self.ledger.restored) == (continuing and not torn)
        if not (continuing and torn):
            assert self.ledger.next_attempt(key) == episode.attempt

    @precondition(lambda self: self.ledger.flying)
    @rule(nth=st.integers(0, 5))
    def no_reply(self, nth):
        key = self.land(nth)
        self.arrived.add(self.ledger.flying[key])
        self.ledger.no_reply(key)

    @precondition(lambda self: self.ledger.flying)
    @rule(nth=st.integers(0, 5))
    def replied(self, nth):
        key = self.land(nth)
        self.arrived.add(self.ledger.flying[key])
        self.done.add(key)
        self.ledger.replied(key)

    @rule()
    def a_participant_restarts(self):
        flying, restored = set(self.ledger.flying), dict(self.ledger.restored)
        self.ledger.tear("it restarted")
        assert set(self.ledger.torn) == flying
        assert not self.ledger.restored
        assert restored.items() <= self.ledger.lost.items()

    @precondition(lambda self: self.ledger.lost)
    @rule(nth=st.integers(0, 5))
    def one_is_retired(self, nth):
        key = sorted(self.ledger.lost)[nth % len(self.ledger.lost)]
        self.ledger.retired({key: EpisodeId(str(key), 99)})
        assert key in self.ledger.lost, "another attempt was retired"
        self.ledger.retired({key: self.ledger.lost[key]})
        assert key not in self.ledger.lost

    @rule(data=st.data())
    def crash(self, data):
        self.arrived |= set(self.ledger.flying.values())
        tried = {}
        for episode in self.arrived:
            key = RowKey(*map(int, episode.rollout_id.split("-")))
            if key not in self.done:
                tried[key] = max(episode.attempt, tried.get(key, 0))
        restored = data.draw(st.sets(st.sampled_from(sorted(tried)))) if tried else set()
        self.ledger = Ledger(tried)
        self.ledger.restore((key, EpisodeId(str(key), tried[key] + 1)) for key in sorted(restored))

    @invariant()
    def what_would_be_continued_is_what_can_still_arrive(self):
        standing = {*self.ledger.flying.values(), *self.ledger.restored.values()}
        assert self.ledger.scope() == standing
        assert not standing & {EpisodeId(str(key)) for key in self.done}

    @invariant()
    def what_is_said_of_rows_in_flight_is_said_of_no_others(self):
        assert {*self.ledger.torn, *self.ledger.continuing} <= set(self.ledger.flying)


TestLives = Lives.TestCase
