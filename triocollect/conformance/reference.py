"""What a participant has to answer and where it then stands: its rules once more, as one long list of cases.

Nothing here waits: a call is done, replayed, refused with a code, or WAITS for something that it is told of
later. Pure: it knows no table and no driver, only plain facts.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from triocollect.protocol.refusals import Code

BUDGET_S: Final = 5  # of every call
LEASE_S: Final = 60
DONE: Final = "done"
WAITS: Final = "waits"


class Asking(NamedTuple):
    """A call in short; `flavour` is its arguments, where it has any. A restore of flavour y finds damage."""

    verb: str
    run: str
    epoch: int
    operation: int
    flavour: str = "x"


class Reference:
    """One participant, and what the world around it is like."""

    def __init__(self) -> None:
        self.busy = False
        self.served = False
        self.fails: str | None = None  # the hook that does
        self.disk = "well"  # or it hangs, or is full
        self.run: str | None = None
        self.epoch = 0
        self.over = 0  # this operation and all before it
        self.at: int | None = None
        self.where = "open"
        self.lease: float | None = None
        self.aborted = False  # the operation of the install under way is over
        self.told: dict[str, str] = {}  # verbs that the operation at hand was asked, with their arguments
        self.given: set[str] = set()  # verbs whose answer stands
        self.export_failed = False
        self.writes: set[tuple[int, int | None]] = set()  # that the disk has not ended: epoch, operation
        self.exports = self.disk_used = 0
        self.kept: set[str] = set()  # checkpoints that have a manifest
        self.retired: set[str] = set()

    # -- what happens by itself -----------------------------------------------------------------------------

    def time_is(self, now: float) -> None:
        """A lease may be over."""
        if self.lease is not None and now >= self.lease:
            self.lease = None
            self.abort()

    def disk_turns(self, disk: str) -> None:
        """What hung ends, well or not."""
        self.disk = disk
        if disk != "hangs":
            if self.where == "committing" and (self.epoch, self.at) in self.writes:
                self.written()
            if self.where == "restoring":
                self.read()
            self.writes.clear()

    # -- what is asked --------------------------------------------------------------------------------------

    def ask(self, asking: Asking, now: float) -> str:
        """DONE, WAITS, or the code of the refusal."""
        self.time_is(now)
        verb, _, _, operation, flavour = asking
        if (answer := self.not_obeyed(asking)) is not None:
            return answer
        if verb == "hello":
            self.heard(operation, now)
            return DONE
        if verb == "resume":
            return self.resume(operation, now)
        if (answer := self.out_of_turn(verb, operation, flavour)) is not None:
            return answer
        self.heard(operation, now)
        answer = self.does(verb, operation, flavour)
        self.heard(operation, now)
        return answer

    def does(self, verb: str, operation: int, flavour: str) -> str:
        """What a call comes to that is obeyed and in turn."""
        does: dict[str, Callable[[int, str], str]] = {
            "prepare": self.prepare,
            "commit": self.commit,
            "restore": self.restore,
            "retire": self.retire,
            "forget": self.forget,
        }
        return does[verb](operation, flavour)

    def not_obeyed(self, asking: Asking) -> str | None:
        """None, or what a caller gets who does not collect here, or not yet."""
        if asking.epoch < self.epoch:
            return Code.STALE_EPOCH
        if self.run not in {None, asking.run} and (asking.epoch == self.epoch or self.busy):
            return Code.OTHER_RUN
        if self.run is None or asking.epoch > self.epoch:
            self.take_over(asking.run, asking.epoch)
        return WAITS if self.aborted else None

    def out_of_turn(self, verb: str, operation: int, flavour: str) -> str | None:
        """None, or what a call gets that does not fit in here."""
        if operation <= self.over:
            return Code.STALE_CHECKPOINT
        if verb in {"prepare", "restore"} and operation != self.at and self.where != "open":
            self.abort()
        if self.aborted:
            return WAITS
        mine = operation == self.at
        if mine and verb in {"commit", "restore"} and self.told.get(verb, flavour) != flavour:
            return Code.CHECKPOINT_CONFLICT
        fits = {
            "prepare": self.where == "open" or (mine and not self.where.startswith("restor")),
            "commit": mine and self.where in {"prepared", "committing", "committed"},
            "restore": self.where == "open" or (mine and self.where in {"restoring", "restored"}),
            "retire": self.where == "open" or (mine and self.where == "restored"),
            "forget": self.where == "open",
        }
        if fits[verb]:
            return None
        soon = {("commit", "preparing"): Code.NOT_READY, ("retire", "restoring"): WAITS}
        return soon.get((verb, self.where), Code.INVALID_PHASE) if mine else Code.INVALID_PHASE

    def resume(self, operation: int, now: float) -> str:
        self.heard(operation, now)
        if self.at is not None and self.at <= operation:
            self.abort()
        self.over = max(self.over, operation)
        return WAITS if self.writes or self.aborted else DONE

    def prepare(self, operation: int, flavour: str) -> str:
        if "prepare" in self.given:
            return DONE
        if self.where == "open":
            self.begin("prepare", operation, flavour)
            if self.fails == "close":
                return Code.INVALID_STATE
            self.where = "preparing"
        if self.busy:
            return WAITS
        self.where = "prepared"
        self.given.add("prepare")
        return DONE

    def commit(self, operation: int, flavour: str) -> str:
        if self.where == "prepared" and self.busy:
            self.where = "preparing"
            self.given.discard("prepare")
            return Code.NOT_READY
        if self.where == "prepared":
            self.begin("commit", operation, flavour)
            self.where, self.export_failed = "committing", self.fails == "export"
            self.exports += 1
        if self.export_failed:
            return Code.INVALID_STATE
        if self.where == "committing" and (self.epoch, operation) not in self.writes:
            self.disk_used += 1
            if self.disk != "hangs":
                return self.written()
            self.writes.add((self.epoch, operation))
        return DONE if self.where == "committed" else WAITS

    def written(self) -> str:
        if self.disk == "full":
            return Code.COORDINATOR_UNAVAILABLE
        self.where = "committed"
        self.kept.add(f"{self.epoch}-{self.at}")
        self.given.add("commit")
        return DONE

    def restore(self, operation: int, flavour: str) -> str:
        if "restore" in self.given:
            return DONE
        if self.where == "open":
            if self.served:
                return Code.NOT_FRESH
            self.begin("restore", operation, flavour)
            if self.fails == "close":
                return Code.INVALID_STATE
            self.where = "restoring"
            self.disk_used += 1
            if self.disk != "hangs":
                return self.read()
        return WAITS

    def read(self) -> str:
        if self.disk == "full":
            answer = Code.COORDINATOR_UNAVAILABLE
        elif self.aborted or self.told["restore"] == "y" or self.fails == "install":
            answer = Code.INVALID_STATE
        else:
            self.where = "restored"
            self.given.add("restore")
            return DONE
        self.reopen()
        return answer

    def retire(self, operation: int, flavour: str) -> str:
        self.begin("retire", operation, flavour)
        self.retired.add(flavour)
        return DONE

    def forget(self, operation: int, flavour: str) -> str:
        self.begin("forget", operation, flavour)
        self.retired.discard(flavour)
        return DONE

    # -- what comes of it -----------------------------------------------------------------------------------

    def take_over(self, run: str, epoch: int) -> None:
        self.abort()
        if run != self.run:
            self.retired.clear()
        self.run, self.epoch, self.over = run, epoch, 0

    def begin(self, verb: str, operation: int, flavour: str) -> None:
        if self.at != operation:
            self.over, self.at = max(self.over, operation - 1), operation
            self.told, self.given = {}, set()
        self.told[verb] = flavour

    def heard(self, operation: int, now: float) -> None:
        if self.where != "open" and self.at == operation:
            self.lease = max(self.lease or 0, now + BUDGET_S + LEASE_S)

    def abort(self) -> None:
        """Everything of the operation at hand is over; open unless an install is under way."""
        if self.at is not None:
            self.over, self.at, self.given = max(self.over, self.at), None, set()
        if self.where == "restoring":
            self.aborted = True
        elif self.where != "open":
            self.reopen()

    def reopen(self) -> None:
        self.where, self.lease, self.aborted = "open", None, False
