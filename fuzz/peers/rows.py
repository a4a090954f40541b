"""A whole run against a server that answers with any bytes: it ends, and every row with it."""

import functools
import json
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trio
from attrs import frozen

from fuzz.descriptors import open_files
from fuzz.invariants import holds
from fuzz.peers.http import FAILED, FAULTS, LOST, MOST_REPLY_BYTES, NONE, RESULT, FaultyServer
from fuzz.peers.life import over_sockets
from fuzz.scratch import scratch
from fuzz.tally import Tally
from tests.collector.runs import RunFolder
from triocollect.errors import Exit

ROWS: Final = 60
LARGE: Final = 600_000  # bytes of a row that no socket takes at once
ROW_S: Final = 5.0  # how long a row waits for its server, simulated like all time here
LONGEST_S: Final = 90.0  # a run that lasts longer hangs
_READ = [name for name, fault in FAULTS.items() if fault.reads]
_UNREAD = [name for name, fault in FAULTS.items() if not fault.reads]


def _is_large(task: int) -> bool:
    return task % 10 == 3


def _good(task: int) -> dict[str, object]:
    return {"reward": 1.0, "n": task}


class Meeting:
    """Which fault each send of each row meets, and who was heard of how often."""

    def __init__(self, seed: int) -> None:
        self._dice: Final = random.Random(seed)
        self._faults: Final = self._dice.sample(_READ, len(_READ))  # each comes up before one comes twice
        self.met: Final[defaultdict[int, dict[int, str]]] = defaultdict(dict)  # by attempt
        self.heard: Final[Counter[tuple[int, int]]] = Counter()
        self.unread: Final[list[str]] = []

    def choose(self, _head: bytes, body: bytes) -> tuple[str, bytes]:
        """A fault for this row; a second send of it fares better as a rule."""
        row = json.loads(body)
        task, attempt = row["_ng_task_index"], row.get("_ng_attempt_index", 0)
        self.heard[task, attempt] += 1
        fares_well = bool(self.met[task]) and self._dice.random() < 0.6
        name = NONE if fares_well else self._faults[(task + 7 * len(self.met[task])) % len(self._faults)]
        self.met[task][attempt] = name
        return name, json.dumps(_good(task)).encode()

    def at_once(self) -> str | None:
        """One connection in twenty is bad from its beginning."""
        if self._dice.random() < 0.95:
            return None
        self.unread.append(self._dice.choice(_UNREAD))
        return self.unread[-1]


async def meet(folder: Path, seed: int, tally: Tally) -> None:
    """One run. Raises BrokenError."""
    run, meeting = RunFolder(folder), Meeting(seed)
    run.write_rows([{"n": nth, "text": "x" * (LARGE if _is_large(nth) else 9)} for nth in range(ROWS)])
    server = FaultyServer(meeting.choose, meeting.at_once)
    report = None
    with trio.move_on_after(LONGEST_S):
        async with trio.open_nursery() as serving:
            listen = functools.partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1")
            (listener,) = await serving.start(listen)
            port = listener.socket.getsockname()[1]
            report = await run.collect(
                url=f"http://127.0.0.1:{port}",
                concurrency=ROWS,
                row_timeout_s=ROW_S,
                max_attempts=2,
                max_reply_bytes=MOST_REPLY_BYTES,
            )
            serving.cancel_scope.cancel()
    holds(15, report is not None, f"the run had not ended after {LONGEST_S:.0f} s")
    _judge(run, meeting, report)
    ends = {end.task: end for end in _ends(run)}
    for task, names in meeting.met.items():
        before = f"{'large' if _is_large(task) else 'small'}, after:"
        for attempt, name in names.items():
            ending = ends[task].ending if attempt == ends[task].attempt else "sent again"
            if name != NONE:
                tally.fault(name, "row" if attempt == 0 else "row sent again", before, ending)
            before += f" {name},"
    for name in meeting.unread:
        tally.fault(name, "connection", "", "met")
    tally.explored += 1


@frozen
class _End:
    """The line of a row: its last attempt, whether that waited in vain, and what a result says itself."""

    task: int
    attempt: int
    ending: str
    too_late: bool
    result: dict[str, object]


def _ends(run: RunFolder) -> Iterator[_End]:
    for line in (*run.records(), *run.sidecar()):
        ending, failure = RESULT, line.get("_ng_failure_class")
        if failure is not None:
            ending = LOST if failure == "agent_request_failed" else FAILED
        too_late = line.get("_ng_failure_type") == "row_timeout"
        result = {name: value for name, value in line.items() if not _is_stamp(name)}
        yield _End(line["_ng_task_index"], line.get("_ng_attempt_index", 0), ending, too_late, result)


def _is_stamp(name: str) -> bool:
    """Whether the collector itself says it of a row."""
    return name.startswith("_ng_") or name == "agent_ref"


def _judge(run: RunFolder, meeting: Meeting, report) -> None:
    lines = Counter(end.task for end in _ends(run))
    holds(15, lines == Counter(range(ROWS)), f"a row has no line, or several: {sorted(lines.elements())}")
    for end in _ends(run):
        _judge_end(end, meeting)
    for (task, attempt), times in meeting.heard.items():
        holds(2, times == 1, f"attempt {attempt} of row {task} arrived {times} times")
    counts = (report.succeeded, report.failed, report.expected)
    holds(
        15, report.succeeded + report.failed == report.expected == ROWS, f"the sum does not add up: {counts}"
    )
    holds(
        15, counts[:2] == (len(run.records()), len(run.sidecar())), f"the report is not the files: {counts}"
    )
    documented = Exit.OK if report.succeeded else Exit.INCOMPLETE
    holds(15, report.exit_code == documented, f"exit code {report.exit_code}, of {report.succeeded} results")


def _judge_end(end: _End, meeting: Meeting) -> None:
    """What the last attempt met is all that may have become of the row, and its result is its own."""
    met = meeting.met[end.task].get(end.attempt)
    told = f"attempt {end.attempt} of row {end.task} ended as {end.ending}"
    if met is not None:
        in_time = end.ending in FAULTS[met].endings
        holds(15, in_time or end.too_late, f"{told}, and its answer was {met!r}")
        good = end.ending != RESULT or end.result == _good(end.task)
        holds(15, good, f"{told}, to {met!r}, and says {end.result}")
    elif end.ending == RESULT:  # nobody read that request, and one server answers with no more than this
        unasked = "answers before reading" in meeting.unread and end.result == {}
        holds(15, unasked, f"{told}, and nobody answered {end.result}")
    else:  # it went to a connection that was bad from its beginning, or that closed meanwhile
        holds(15, end.ending == LOST, f"{told}, and nobody answered it")


def rows_meet_http(seed: int, tally: Tally) -> None:
    """One run with the faults of this seed. Raises BrokenError."""
    folder, before = scratch(), open_files()
    try:
        over_sockets(meet, folder, seed, tally)
        holds(16, open_files() == before, f"{open_files() - before} descriptors are left open")
    finally:
        shutil.rmtree(folder)
