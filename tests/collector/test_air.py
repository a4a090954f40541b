"""What the controller and the next run hear of a row's end."""

import trio

from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.sent import read_dispatched
from triocollect.collector.air import Air, AirParts
from triocollect.collector.sinks import Sinks
from triocollect.durable import AppendFile
from triocollect.flight.gate import Gate
from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import DispatchHeader


async def test_a_row_that_was_answered_and_is_written_nowhere_is_told_to_servers_and_to_the_next_run(
    tmp_path,
):
    path, episode = tmp_path / "dispatched.jsonl", EpisodeId("3-0", 1)
    log = start_dispatched(path, DispatchHeader("4f2c", 1, 0, reserved=0), {"3-0": 0})
    output, failures = (AppendFile(tmp_path / name) for name in ("out.jsonl", "out_failures.jsonl"))
    sinks = Sinks(output, failures)
    air = Air(
        AirParts(
            gate=Gate(1),
            ledger=Ledger(),
            sinks=sinks,
            log=log,
            inbox=Inbox(1.0, now=trio.current_time()),
            blocking=None,
        )
    )
    log.append([episode])
    air.unpersisted(episode)
    assert air.finished() == ["3-0"], "its marks can be forgotten"
    log.close()
    sinks.close()
    assert read_dispatched(path).answered == {"3-0": 1}
