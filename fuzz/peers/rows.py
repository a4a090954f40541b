"""A whole run against a server that answers with any bytes: it ends, and every row with it."""

import functools
import json
import os
import random
import shutil
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import trio

from fuzz.invariants import holds
from fuzz.peers.http import FAILED, FAULTS, LOST, MOST_REPLY_BYTES, NONE, RESULT, FaultyServer
from fuzz.peers.life import over_sockets
from fuzz.scratch import SCRATCH
from fuzz.tally import Tally
from tests.collector.runs import RunFolder
from triocollect.errors import Exit

ROWS: Final = 60
LARGE: Final = 600_000  # bytes of a row that no socket takes at once
ROW_S: Final = 5.0  # how long a row waits for its server, simulated like all time here
LONGEST_S: Final = 90.0  # a run that lasts longer hangs
_READ = [name for name, fault in FAULTS.items() if fault.reads]
_UNREAD = [name for name, fault in FAULTS.items() if not fault.reads]


class Meeting:
    """Which fault each send of each row meets, and who was heard of how often."""

    def __init__(self, seed: int) -> None:
        self._dice: Final = random.Random(seed)
        self._faults: Final = self._dice.sample(_READ, len(_READ))  # each comes up before one comes twice
        self.met: Final[defaultdict[int, list[str]]] = defaultdict(list)
        self.heard: Final[Counter[tuple[int, int]]] = Counter()
        self.unread: Final[list[str]] = []

    def choose(self, _head: bytes, body: bytes) -> tuple[str, bytes]:
        """A fault for this row; a second send of it fares better as a rule."""
        row = json.loads(body)
        task, attempt = row["_ng_task_index"], row.get("_ng_attempt_index", 0)
        self.heard[task, attempt] += 1
        fares_well = bool(self.met[task]) and self._dice.random() < 0.6
        name = NONE if fares_well else self._faults[(task + 7 * len(self.met[task])) % len(self._faults)]
        self.met[task].append(name)
        return name, json.dumps({"reward": 1.0, "n": task}).encode()

    def at_once(self) -> str | None:
        """One connection in twenty is bad from its beginning."""
        if self._dice.random() < 0.95:
            return None
        self.unread.append(self._dice.choice(_UNREAD))
        return self.unread[-1]


async def meet(folder: Path, seed: int, tally: Tally) -> None:
    """One run. Raises BrokenError."""
    run, meeting = RunFolder(folder), Meeting(seed)
    run.write_rows([{"n": nth, "text": "x" * (LARGE if nth % 10 == 3 else 9)} for nth in range(ROWS)])
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
    for task, names in meeting.met.items():
        for nth, name in enumerate(names):
            ending = _ending_of(run, task) if nth == len(names) - 1 else "sent again"
            if name != NONE:
                tally.fault(name, "row" if nth == 0 else "row sent again", f"{seed} {task} {nth}", ending)
    for nth, name in enumerate(meeting.unread):
        tally.fault(name, "connection", f"{seed} {nth}", "met")
    tally.explored += 1


def _judge(run: RunFolder, meeting: Meeting, report) -> None:
    results = Counter(one["_ng_task_index"] for one in run.records())
    failures = Counter(one["_ng_task_index"] for one in run.sidecar())
    for task in range(ROWS):
        holds(
            15, results[task] + failures[task] == 1, f"row {task} has {results[task]}, {failures[task]} lines"
        )
        last = meeting.met[task][-1] if meeting.met[task] else None
        ending = _ending_of(run, task)
        wanted = FAULTS[last].endings if last is not None else {RESULT, LOST}
        if meeting.unread:  # which of the row's sends met that, nobody can tell; one of them answers with 200
            wanted = wanted | {LOST, RESULT}
        holds(15, ending in wanted, f"row {task} ended as {ending}, and its last answer was {last!r}")
    for (task, attempt), times in meeting.heard.items():
        holds(2, times == 1, f"attempt {attempt} of row {task} arrived {times} times")
    counts = (report.succeeded, report.failed, report.expected)
    holds(
        15, report.succeeded + report.failed == report.expected == ROWS, f"the sum does not add up: {counts}"
    )
    holds(
        15, counts[:2] == (len(run.records()), len(run.sidecar())), f"the report is not the files: {counts}"
    )
    documented = Exit.OK if results else Exit.INCOMPLETE
    holds(15, report.exit_code == documented, f"exit code {report.exit_code}, and {len(results)} results")


def _ending_of(run: RunFolder, task: int) -> str:
    if any(one["_ng_task_index"] == task for one in run.records()):
        return RESULT
    classes = [one["_ng_failure_class"] for one in run.sidecar() if one["_ng_task_index"] == task]
    return LOST if classes == ["agent_request_failed"] else FAILED


def open_files() -> int:
    """How many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # only how many


def rows_meet_http(seed: int, tally: Tally) -> None:
    """One run with the faults of this seed. Raises BrokenError."""
    folder, before = Path(tempfile.mkdtemp(prefix="peers-", dir=SCRATCH)), open_files()
    try:
        over_sockets(meet, folder, seed, tally)
        holds(16, open_files() == before, f"{open_files() - before} descriptors are left open")
    finally:
        shutil.rmtree(folder)
