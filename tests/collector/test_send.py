"""How the end of a send is told."""

import pytest
import trio

from triocollect.collector.outcome import Closed, NoReply, NothingRan, Success
from triocollect.collector.send import LOST_S, after_a_while


@pytest.mark.parametrize(
    ("outcome", "waits_s"),
    [
        (NoReply("closed", "the connection broke"), LOST_S),
        (NothingRan("refused", "nobody is there"), LOST_S),
        (NoReply("status", "HTTP 503", 503, retry_after_s=5.0), 0),
        (Closed("a checkpoint is open"), 0),
        (Success({}, 1.0), 0),
    ],
)
async def test_of_a_server_that_is_gone_a_row_hears_after_the_run_does(autojump_clock, outcome, waits_s):
    async def send(_row, _episode):
        return outcome

    assert await after_a_while(send)(None, None) == outcome
    assert trio.current_time() == waits_s
