"""What must be so, asked of what can be seen from outside: the disk, and the requests.

By the numbers of `fuzz/invariants.py`. Nothing of the product is imported but the types of its files, and a
server's memory is seen through `probe.py` alone:

1  output only grows, one success a row, none is sent that had one (`row_begins`); at last all (`finish`)
2  attempts increase, each is sent once (`sends.py`), and only one of a row is at work
3, 4, 6  what LATEST names, what is there beside it, and what is continued (`kept.py`, `cuts.py`)
5  no row starts in a checkpoint, nothing is retired in one that goes on; `starts.py`
7  nothing is sent before what was not answered is retired (`retired.py`); what was answered is not retired
8, 9  who is asked to open, and what is done then (`operations.py`); everybody is open at the end
10 no attempt is refused for a mark on an earlier one; what is kept goes on (`promised.py`); no attempt that
   a restore has tried is used again (`cuts.py`)
10, 11, 13  what is kept of calls under way (`generated.py`)
11, 12, 13  calls, effects and results (`played.py`); records are of one instant (`cuts.py`)
14 a stop ends within its grace (`living.py`)
15 after a death at any change of a file all of this holds; the report adds up (`end`)
16 at the end nobody keeps anything of a rollout (`finish`)
"""

import itertools
from collections import defaultdict
from pathlib import Path

from fuzz.invariants import BrokenError, ask_all, holds, raise_all
from fuzz.simulation.cuts import Cuts, Installs
from fuzz.simulation.ends import check_all_ended, check_report, check_results
from fuzz.simulation.generated import Generated
from fuzz.simulation.kept import Kept
from fuzz.simulation.operations import Operations
from fuzz.simulation.played import Played
from fuzz.simulation.promised import Promised
from fuzz.simulation.reading import (
    answered_in,
    code_of,
    identity_of,
    key_of,
    lines_in,
    rollout_of,
)
from fuzz.simulation.request import OK, PREFIX, Request
from fuzz.simulation.retired import Retired, check_end
from fuzz.simulation.sends import Sends
from fuzz.simulation.starts import Starts
from fuzz.simulation.story import Life, Story
from fuzz.simulation.worker import manner_of
from triocollect.protocol.manifests import CheckpointOutcome


class Oracle:
    """Remembers over all lives. What is broken amid the product's work is told at the end of the life."""

    def __init__(self, folder: Path, story: Story):
        self.folder, self.rows = folder, story.rows
        self.checkpoints = folder / "checkpoints"
        self.life_number = 0
        self.notes: list[str] = []
        self.broken: list[BrokenError] = []
        self.sends = Sends()
        self.played = Played(story.changes, story.mixed)
        honest = manner_of(story) == "well"
        self.generated = Generated(self.checkpoints, folder / "effects", honest, self.holds)
        self.promised = Promised(folder)
        self.kept = Kept(self.checkpoints, self.holds)
        self.retired = Retired(self.holds)
        self.operations = Operations(self.holds)
        self.cuts = Cuts(self.checkpoints, story.mixed, self.holds)
        self.installs = Installs(self.holds)
        self.continued = set[tuple[str, int]]()  # attempts that said they go on
        self.open_operation: int | None = None
        self.goes_on = True  # the open operation is no stop
        self.waits_at_gate = False  # no row has begun since the last checkpoint began
        self.starts = Starts(self.holds)
        self._has_greeted = False  # this life has a controller
        self._sent_now = set[str]()  # rollouts of this life
        self._done: set[tuple[int, int]] = set()
        self.servers = self.life = None
        self.counts = defaultdict(int)

    @property
    def restored(self):
        """What each continued attempt began from."""
        return {episode: origin.state for episode, origin in self.played.origins.items()}

    def holds(self, number: int, condition: object, what: str) -> None:
        """Remember what does not, until the life is over."""
        if not condition:
            self.broken.append(BrokenError(number, what))

    # -- over lives -----------------------------------------------------------------------------------------

    def begin(self, servers, life: Life, *, anew: bool):
        """Another one, with servers that are `anew`."""
        self.life_number += 1
        self.servers, self.life, self.open_operation = servers, life, None
        self.starts.begin()
        self.operations.begin(life)
        self.waits_at_gate = False
        self.installs.begin()
        served = any(probe.has_served for probe in servers.participants.values())
        self.retired.begin(anew=anew or not served)
        self._has_greeted = False
        self._sent_now.clear()
        self._done = set() if life.fresh else {key_of(line) for line in self._lines("out.jsonl")}
        self.kept.begin(life)
        self.promised.begin(life, self.sends.of, anew=anew, harmed=self.kept.is_harmed)

    def end(self, report, *, told: bool):
        """Of a life, dead or `told` to stop or not: the disk is as the next one finds it."""
        lines, failures = self._lines("out.jsonl"), self._lines("out_failures.jsonl")
        self.generated.end(calm=not self.life.is_disturbed)
        ask_all(
            [
                self._tell_broken,
                lambda: check_results(lines),
                lambda: self.promised.end(report),
                lambda: check_report(report, self.life.limit or self.rows, lines, failures),
                lambda: self.retired.ends(self.life, self.servers.participants, told=told or not report),
                lambda: self.kept.end(may_be_unpruned=report is None or told),
                self.sends.check,
                lambda: self.played.check(self.folder / "effects", lines),
                lambda: self.promised.check_continued(self.sends.of),
            ]
        )
        self.counts[f"life ended {'dead' if report is None else report.ending}"] += 1
        for send in itertools.chain(*self.sends.of.values()):
            self.counts[code_of(send.request)] += 1
        self.counts["failed"] = len(failures)

    def loses_power(self):
        """The machine."""
        self.promised.loses_power()
        self.sends.loses_power()

    def _tell_broken(self):
        broken, self.broken = self.broken, []
        raise_all(broken)

    def finish(self, report):
        """After the life that nobody disturbed."""
        self._tell_broken()
        holds(15, report is not None, "a life that nobody disturbed has no report")
        check_all_ended(self.rows, self._lines("out.jsonl"), self._lines("out_failures.jsonl"))
        for name, probe in self.servers.participants.items():
            check_end(name, probe, self._sent_now if self._has_greeted else None)

    # -- what the run tells ---------------------------------------------------------------------------------

    def checkpoint_begins(self, operation: int, *, goes_on: bool):
        self.open_operation, self.goes_on, self.waits_at_gate = operation, goes_on, goes_on
        self.operations.opens()
        self.kept.begins({rollout_of(line) for line in self._lines("out.jsonl")})
        self.promised.cuts()
        self.cuts.begins()

    def checkpoint_ends(self, outcome: CheckpointOutcome, *, told: bool):
        """And the run may be `told` to stop meanwhile."""
        self.open_operation, self.waits_at_gate = None, self.goes_on
        if self.goes_on and not told:
            self.operations.over(outcome.operation, self.servers.participants)
        self.counts["published" if outcome.published else "not published"] += 1
        try:
            if not self.life.faults:
                self.installs.hears()
            self.kept.ends(outcome, set(self.installs.waiting))
            if outcome.published:
                self.cuts.publishes(calm=not self.life.is_disturbed)
                self.generated.publishes(calm=not self.life.is_disturbed, stops=not self.goes_on)
                if "prune" in outcome.phases_s and not self.life.is_disturbed:
                    self.generated.is_pruned()
        except (OSError, ValueError, KeyError) as error:
            self.broken.append(BrokenError(3, f"LATEST leads to what cannot be read: {error!r}"))
        if outcome.published:
            self.promised.publishes()

    def row_begins(self, task: int, rollout: int):
        self.waits_at_gate = False
        begins = f"row {task}-{rollout} was sent"
        self.operations.row_begins(self.servers.participants)
        self.holds(5, self.open_operation is None, f"{begins} in the open checkpoint {self.open_operation}")
        self.holds(1, (task, rollout) not in self._done, f"{begins} although it had a result")

    def row_comes_back(self, rollout_id: str, attempt: int):
        """It will be sent again; where nothing ran, it waits as the restored row that it was before."""
        if self.sends.is_refused(rollout_id):
            self.installs.waiting[rollout_id] = attempt
        else:
            self.cuts.lands(rollout_id, attempt)

    # -- what is on the wire --------------------------------------------------------------------------------

    def tries(self, request: Request):
        """It is to set out; perhaps nobody is there."""
        if request.door == "control":
            self.operations.asks(request)

    def asks(self, request: Request):
        """It sets out; it may never arrive."""
        self.starts.look(self.servers.environment)
        if request.path == "/run":
            rollout_id, _ = identity_of(request.call)
            self.installs.goes_on(rollout_id)

    def arrives(self, request: Request):
        self.starts.look(self.servers.environment)
        self.counts[request.door] += 1
        if request.host == "inference":
            self.played.generated.add(request.header(b"x-call-id"))
        elif request.path == "/run":
            self._run_arrives(request)
        elif request.path == f"{PREFIX}resume" and request.host == "environment":
            self.open_operation = None  # from here on rows may go on
        elif request.path == f"{PREFIX}restore" and request.host == "counter":
            call = request.call
            self.installs.restores(call["scope"], (self.life_number, call["operation"]), self._answered())
            place = self.checkpoints / call["directory"] / "participants"
            self._ask(lambda: self.generated.restored(place, call["scope"]))
            self._ask(lambda: self.played.restored(place, call["scope"]))
        elif request.path == f"{PREFIX}hello":
            self._has_greeted = True
        elif request.path == f"{PREFIX}commit":
            call = request.call
            self.cuts.commits(call["scope"], frozenset(self.continued))
        elif request.path == f"{PREFIX}retire":
            self._retire_arrives(request.call)

    def strays(self, request: Request):
        if request.path == "/run":
            rollout_id, attempt = identity_of(request.call)
            request.overtaken = self.sends.is_overtaken(rollout_id, attempt)

    def answers(self, request: Request, *, heard: bool):
        """An answer is on its way back."""
        self.starts.look(self.servers.environment)
        if heard and request.host == "policy-model" and request.door == "peer":
            self._call_answers(request)
        if request.path == "/run":
            self.retired.replies(request, self.servers.environment, heard=heard)
            if heard and request.status == OK:
                self.promised.answers(*identity_of(request.call))
            late = request.overtaken and code_of(request) is None
            self.holds(2, not late, f"{request.body!r} was played again, or after a later attempt")
            if code_of(request) == "stale_attempt":
                _rollout_id, attempt = identity_of(request.call)
                through = request.answer["error"].get("retired_through", -1)
                self.holds(10, through >= attempt, f"{request.reply!r} to attempt {attempt}")
        elif request.status == OK and request.door == "control":
            self._control_answers(request)

    def _call_answers(self, request: Request):
        headers = dict(request.reply_headers)
        call = headers.get(b"x-call-id") if request.status == OK else None
        self._ask(lambda: self.played.delivers(call, to=request.path.split("/")[2]))

    def _ask(self, question):
        """Amid the product's work."""
        try:
            question()
        except BrokenError as error:
            self.broken.append(error)

    def _control_answers(self, request: Request):
        self.cuts.answers(request, self._answered, self.servers.processes)
        name = request.host.replace("-", "_")
        self.installs.answers(name, self.servers.processes[name], installs=request.kind == "restore")
        if request.kind in {"retire", "restore"}:
            self.retired.frees(request, self.servers.participants[name])
        self.operations.answers(request)
        if request.kind == "restore" and request.host == "environment":
            self.installs.succeeds(request.call["scope"])

    def _run_arrives(self, request: Request):
        rollout_id, attempt = identity_of(request.call)
        continued = request.header(b"x-continued") == b"1"
        self.counts["continued"] += continued
        if continued:
            self.continued.add((rollout_id, attempt))
        self.installs.sends(rollout_id, attempt, continued=continued)
        self.sends.arrives(rollout_id, attempt, request)
        self._sent_now.add(rollout_id)
        self.retired.sends(rollout_id, attempt, self.servers.participants, continued=continued)

    def _retire_arrives(self, call):
        closed = self.open_operation is not None and self.goes_on
        self.holds(5, not closed, f"{call['episodes']} are retired in the open checkpoint")
        answered = self._answered() | self.promised.unwritten
        for one in call["episodes"]:
            self.installs.retires(one["rollout_id"], one["attempt"])
            named = (one["rollout_id"], one["attempt"]) in answered
            self.holds(7, not named, f"{one} was answered and is retired")

    def _answered(self):
        return answered_in([*self._lines("out.jsonl"), *self._lines("out_failures.jsonl")])

    def _lines(self, name):
        return lines_in(self.folder / name)
