"""A participant that is asked anything in any order is open, or closed with a lease that ends."""

import math
from typing import NamedTuple

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from triocollect.participant.operations import Act, EndOlderThenAct, Later, Operations, Refuse, Replay
from triocollect.protocol import messages
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.phases import Event, Phase, step
from triocollect.protocol.refusals import Code

BUDGET, LEASE = 5, 60
VERBS = ("hello", "prepare", "commit", "restore", "resume", "retire", "forget")


class Asking(NamedTuple):
    """A call in short; `flavour` is its arguments, where it has any."""

    verb: str
    run: str
    epoch: int
    operation: int
    flavour: str = "x"

    def call(self):
        """The message itself."""
        flavour = self.flavour
        common = {"run": self.run, "epoch": self.epoch, "operation": self.operation, "budget_ms": 0}
        rest = {
            "commit": {"checkpoint_id": flavour, "directory": "d", "scope": (EpisodeId(flavour),)},
            "restore": {"checkpoint_id": flavour, "directory": "d", "manifest_sha256": flavour, "scope": ()},
            "retire": {"episodes": (EpisodeId(flavour),)},
            "forget": {"rollout_ids": (flavour,)},
        }
        return getattr(messages, self.verb.capitalize())(**common, **rest.get(self.verb, {}))


class Ours:
    """The product's table and rules, driven the way `calls.py` drives them, with no loop and no files."""

    def __init__(self):
        self.operations, self.phase = Operations(), Phase.OPEN
        self.lease, self.unwanted, self.opened = math.inf, False, 0

    def back(self, event):
        self.phase = step(self.phase, event)
        if self.phase is Phase.OPEN:
            self.lease, self.unwanted, self.opened = math.inf, False, self.opened + 1

    def end(self, event):
        if self.operations.current is not None:
            self.operations.end(self.operations.current)
        if self.phase is not Phase.OPEN:
            self.unwanted = self.phase is Phase.RESTORING
            if event is Event.LEASE_END:
                self.lease = math.inf
            self.back(event)

    def ask(self, call, now, *, live):  # noqa: PLR0911  # one per verdict
        """`done`, `replayed`, `waits` (for an install), or the code of the refusal."""
        if (refused := self.operations.meet(call, live=live)) is not None:
            return refused.code
        if self.operations.is_new(call):
            self.end(Event.HIGHER_EPOCH)
            self.operations.take_over(call)
        if self.phase is Phase.RESTORING and self.unwanted:
            return "waits"
        match self.operations.judge(call, self.phase):
            case EndOlderThenAct(event):
                self.end(event)
                return self.ask(call, now, live=live)
            case Later():
                return "waits"
            case Refuse(code):
                return code
            case Replay():
                self.heard(call, now)
                return "replayed"
            case Act():
                self.act(call)
                self.heard(call, now)
                return "done"

    def heard(self, call, now):
        if self.phase is not Phase.OPEN and self.operations.is_current(call):
            end = now + BUDGET + LEASE
            self.lease = end if self.lease == math.inf else max(self.lease, end)

    def act(self, call):
        match call:
            case messages.Resume():
                if self.operations.current is not None and call.operation >= self.operations.current:
                    self.end(Event.RESUME)
                self.operations.end(call.operation)
            case messages.Prepare() | messages.Restore() if self.phase is Phase.OPEN:
                self.operations.begin(call)
                self.phase = step(self.phase, Event(type(call).__name__.lower()))
            case messages.Commit() if self.phase is Phase.PREPARED:
                self.operations.begin(call)
                self.phase = step(self.phase, Event.COMMIT)
            case messages.Retire() | messages.Forget():
                self.operations.begin(call)

    def happens(self, event):
        """What comes of a call by itself."""
        if event in {Event.AT_BOUNDARIES, Event.WRITTEN, Event.INSTALLED}:
            if event is Event.INSTALLED and self.unwanted:
                event = Event.RESTORE_FAILED
            else:
                kind = {
                    Event.AT_BOUNDARIES: messages.Prepare,
                    Event.WRITTEN: messages.Commit,
                    Event.INSTALLED: messages.Restore,
                }[event]
                self.operations.answered(self.made(kind), messages.Answer(boot="b"))
        if event is Event.NOT_AT_BOUNDARIES:
            self.operations.take_back(messages.Prepare)
        self.back(event)

    def made(self, kind):
        fields = self.operations.run, self.operations.epoch, self.operations.current
        return Asking(kind.__name__.lower(), *fields).call()

    def expire(self, now):
        if now >= self.lease:
            self.end(Event.LEASE_END)


class Clumsy:
    """The same rules, said again as one long list of cases over plain facts."""

    def __init__(self):
        self.run, self.epoch, self.over, self.at = None, 0, 0, None
        self.where = "open"
        self.told = {}  # arguments of what the operation at hand was asked
        self.given = set()  # verbs whose answer stands
        self.lease, self.aborted = None, False

    def abort(self):
        """Everything of the operation at hand is over; open unless an install is under way."""
        if self.at is not None:
            self.over, self.at, self.told, self.given = max(self.over, self.at), None, {}, set()
        if self.where == "restoring":
            self.aborted = True
        elif self.where != "open":
            self.reopen()

    def reopen(self):
        self.where, self.lease, self.aborted = "open", None, False

    def begin(self, verb, operation, flavour):
        if self.at != operation:
            self.over, self.at, self.told, self.given = max(self.over, operation - 1), operation, {}, set()
        self.told[verb] = flavour if verb in {"commit", "restore"} else None

    def heard(self, operation, now):
        if self.where != "open" and self.at == operation:
            self.lease = max(self.lease or 0, now + BUDGET + LEASE)

    def ask(self, asking, now, *, live):  # noqa: PLR0911, C901, PLR0912  # clumsy on purpose
        verb, run, epoch, operation, flavour = asking
        if epoch < self.epoch:
            return Code.STALE_EPOCH
        if self.run is not None and run != self.run and (epoch == self.epoch or live):
            return Code.OTHER_RUN
        if self.run is None or epoch > self.epoch:
            self.abort()
            self.run, self.epoch, self.over = run, epoch, 0
            self.at, self.told, self.given = None, {}, set()
        if self.where == "restoring" and self.aborted:
            return "waits"
        if verb == "hello":
            self.heard(operation, now)
            return "done"
        if verb == "resume":
            if self.at is not None and self.at <= operation:
                self.abort()
            self.over = max(self.over, operation)
            self.heard(operation, now)
            return "done"
        if operation <= self.over:
            return Code.STALE_CHECKPOINT
        if verb in {"prepare", "restore"} and operation != self.at and self.where != "open":
            self.abort()
            if self.where == "restoring":
                return "waits"
        mine = operation == self.at
        if mine and verb in self.told and self.told[verb] not in {None, flavour}:
            return Code.CHECKPOINT_CONFLICT
        if mine and verb in self.given:
            self.heard(operation, now)
            return "replayed"
        fits = {
            "prepare": self.where == "open" or (mine and self.where in {"preparing", "prepared"}),
            "commit": mine and self.where in {"prepared", "committing"},
            "restore": self.where == "open" or (mine and self.where == "restoring"),
            "retire": self.where == "open" or (mine and self.where == "restored"),
            "forget": self.where == "open",
        }[verb]
        if not fits and mine and (verb, self.where) == ("commit", "preparing"):
            return Code.NOT_READY
        if not fits and mine and (verb, self.where) == ("retire", "restoring"):
            return "waits"
        if not fits:
            return Code.INVALID_PHASE
        if (
            not (mine and verb in {"prepare", "commit", "restore"} and verb in self.told)
            or self.where == "open"
        ):
            self.begin(verb, operation, flavour)
        going = {"prepare": ("open", "preparing"), "commit": ("prepared", "committing")}
        going["restore"] = ("open", "restoring")
        if verb in going and self.where == going[verb][0]:
            self.where = going[verb][1]
        self.heard(operation, now)
        return "done"

    def happens(self, event):
        answered = {
            Event.AT_BOUNDARIES: ("prepare", "prepared"),
            Event.WRITTEN: ("commit", "committed"),
            Event.INSTALLED: ("restore", "restored"),
        }
        if event is Event.INSTALLED and self.aborted:
            self.reopen()
        elif event in answered:
            verb, self.where = answered[event]
            self.given.add(verb)
        elif event is Event.NOT_AT_BOUNDARIES:
            self.where = "preparing"
            self.given.discard("prepare")
        elif event in {Event.PREPARE_RAISED, Event.RESTORE_FAILED}:
            self.reopen()


near = st.builds(
    Asking,
    verb=st.sampled_from(VERBS),
    run=st.sampled_from("rrrrrs"),
    epoch=st.sampled_from([0, 0, 0, 0, 1, -1]),
    operation=st.sampled_from([0, 0, 0, 1, 1, 2, -1]),
    flavour=st.sampled_from("xxxy"),
)

OUTCOMES = {
    Phase.PREPARING: (Event.AT_BOUNDARIES, Event.PREPARE_RAISED),
    Phase.PREPARED: (Event.NOT_AT_BOUNDARIES,),
    Phase.COMMITTING: (Event.WRITTEN, Event.WRITE_FAILED),
    Phase.RESTORING: (Event.INSTALLED, Event.RESTORE_FAILED),
}


class Asked(RuleBasedStateMachine):
    """Calls of any run, epoch and operation, what comes of them, and time that passes."""

    def __init__(self):
        super().__init__()
        self.ours, self.clumsy, self.now = Ours(), Clumsy(), 0.0
        self.ended = (0, 0)  # the highest operation that has ended, over all epochs

    @initialize()
    def begin(self):
        self.asks(Asking("hello", "r", 1, 0), live=False)

    @rule(asking=near, live=st.booleans())
    def call(self, asking, live):
        operations = self.ours.operations
        at = operations.current or operations.ended
        self.asks(
            asking._replace(
                epoch=max(0, operations.epoch + asking.epoch),
                operation=0 if asking.verb == "hello" else max(0, at + asking.operation),
            ),
            live=live,
        )

    def asks(self, asking, *, live):
        self.expire()
        before = self.ours.phase
        answer = self.ours.ask(asking.call(), self.now, live=live)
        assert answer == self.clumsy.ask(asking, self.now, live=live)
        about = (asking.epoch, asking.operation)
        if about <= self.ended and asking.verb not in {"hello", "resume"}:
            assert answer not in {"done", "replayed"}, "a finished operation acted again"
        if answer in {Code.STALE_EPOCH, Code.OTHER_RUN}:
            assert self.ours.phase is before, "one that is not obeyed changed something"
        if asking.verb == "resume" and answer == "done":
            self.ended = max(self.ended, about)
            current = self.ours.operations.current
            assert current is None or current > asking.operation

    @rule(nth=st.integers(0, 1))
    def outcome(self, nth):
        self.expire()
        possible = OUTCOMES.get(self.ours.phase, ())
        if possible:
            event = possible[nth % len(possible)]
            self.ours.happens(event)
            self.clumsy.happens(event)

    @rule(seconds=st.sampled_from([1.0, 30.0, 64.0, 66.0]))
    def time_passes(self, seconds):
        self.now += seconds
        self.expire()

    def expire(self):
        self.ours.expire(self.now)
        if self.clumsy.lease is not None and self.now >= self.clumsy.lease:
            self.clumsy.lease = None
            self.clumsy.abort()

    @invariant()
    def it_is_open_or_closed_with_a_lease_that_ends(self):
        if self.ours.phase is Phase.OPEN:
            assert self.ours.lease == math.inf
        elif self.ours.unwanted:
            assert self.ours.phase is Phase.RESTORING, "only an install that must end keeps it closed"
        else:
            assert self.now < self.ours.lease <= self.now + BUDGET + LEASE

    @invariant()
    def both_statements_of_the_rules_agree(self):
        ours, clumsy = self.ours, self.clumsy
        operations = ours.operations
        assert (ours.phase, operations.run, operations.epoch, operations.ended, operations.current) == (
            clumsy.where,
            clumsy.run,
            clumsy.epoch,
            clumsy.over,
            clumsy.at,
        )
        assert ours.unwanted == clumsy.aborted
        assert ours.lease == (math.inf if clumsy.lease is None else clumsy.lease)


TestAsked = Asked.TestCase
