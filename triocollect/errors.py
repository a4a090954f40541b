"""The one exception tree; every class carries the exit code of the command line.

TriocollectError                 1   an internal error unless a subclass says otherwise
├── UsageError                   2   the command line, the settings or the input is wrong
│   ├── ConfigError              2   settings: every problem at once
│   └── InputError               2   an input file: file, line, what to do
├── RefusedError                 4   going on would lose or mix something
│   ├── DriftError               4   input or settings differ from the run that is continued
│   ├── LockedError              4   another collector holds the output
│   ├── NothingToResumeError     4   told to resume, found nothing
│   ├── WouldOverwriteError      4   told to start afresh over an earlier run
│   └── DamageError              4   a file of an earlier run cannot be continued from
├── StoppedError                75   a run was told to stop before it had begun
│   └── GivenUpError           130   told so again, with the keyboard
├── DeploymentError              1   a server of the embedded deployment did not start, or ended
├── PeerError                    1   a server that another server asked failed it (one episode's fate)
│   └── BusyError                1   it has no room now, and has begun nothing
├── CheckpointError              1   a checkpoint was not taken, or not restored (its own fate, not the run's)
│   └── ControlError             1   a participant refused a control call, or did not answer it
├── BrokenPromiseError           3   a participant that was put to the test broke a promise of the protocol
├── UntriedError                 3   a promise of a participant could not be tried
├── StateError                   1   a state holds what a record cannot keep
├── StorageError                 1   a file cannot be read, written or made durable
└── TransportError               1   a request brought no usable reply (one row's fate, not a run's)
    ├── NotSentError             1   no byte of the request can have arrived
    ├── ReplyLostError           1   the request may have arrived; no whole reply came
    └── ReplyRefusedError        1   a whole reply came that breaks our limits
"""

from collections.abc import Iterator
from enum import IntEnum, unique
from typing import ClassVar, Final


@unique
class Exit(IntEnum):
    """Exit codes of every command."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    INCOMPLETE = 3
    REFUSED = 4
    LEFT = 75  # rows left that were not tried or were cut
    INTERRUPTED = 130


class TriocollectError(Exception):
    """Anything this package raises on purpose."""

    exit_code: ClassVar[Exit] = Exit.INTERNAL


class UsageError(TriocollectError):
    """The command line, the settings or the input is wrong; nothing was sent or changed."""

    exit_code = Exit.USAGE


class ConfigError(UsageError):
    """The settings are wrong. One line per problem, all problems at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: Final = problems


class InputError(UsageError):
    """An input file is wrong. `line` counts physical lines from 1, `offset` bytes from 0."""

    def __init__(
        self, message: str, *, path: str, line: int | None = None, offset: int | None = None
    ) -> None:
        place = path if line is None else f"{path}, line {line}"
        if offset is not None:
            place += f" (byte {offset})"
        super().__init__(f"{place}: {message}")
        self.path, self.line, self.offset = path, line, offset


class RefusedError(TriocollectError):
    """Going on would lose or mix something; nothing was changed."""

    exit_code = Exit.REFUSED


class DriftError(RefusedError):
    """Input or settings differ from those of the run that is continued."""

    def __init__(self, message: str, *, fields: tuple[str, ...]) -> None:
        super().__init__(message)
        self.fields: Final = fields


class LockedError(RefusedError):
    """Another collector holds the output or the directory."""


class NothingToResumeError(RefusedError):
    """Told to resume (`must`), and there is nothing of an earlier run."""


class WouldOverwriteError(RefusedError):
    """Told to start afresh (`never`) where an earlier run left something, without `overwrite`.

    The message names settings, as a program gives them; `at_command_line` names flags.
    """

    def __init__(self, message: str, *, at_command_line: str | None = None) -> None:
        super().__init__(message)
        self.at_command_line: Final = at_command_line or message


class DamageError(RefusedError):
    """A file of an earlier run is damaged so that it cannot be continued from."""


class StoppedError(TriocollectError):
    """A run was told to stop before it had begun; nothing was sent."""

    exit_code = Exit.LEFT


class GivenUpError(StoppedError):
    """A run was told to stop, and told again with the keyboard, before it had begun."""

    exit_code = Exit.INTERRUPTED


class DeploymentError(TriocollectError):
    """A server of the embedded deployment did not start, or ended while it was needed."""


class CheckpointError(TriocollectError):
    """A checkpoint was not taken, or not restored; the run goes on."""


class ControlError(CheckpointError):
    """A participant refused a control call, or did not answer it as the protocol says.

    `code` is the refusal's, None where no refusal of the protocol came.
    """

    def __init__(self, message: str, *, participant: str, code: str | None = None) -> None:
        super().__init__(f"{participant}: {message}")
        self.participant: Final = participant
        self.code: Final = code


class BrokenPromiseError(TriocollectError):
    """A participant that was put to the test broke a promise: what was asked, answered, and expected."""

    exit_code = Exit.INCOMPLETE

    def __init__(self, *, asked: str, answered: str, expected: str) -> None:
        super().__init__(f"{asked}: answered {answered}, expected {expected}")
        self.asked, self.answered, self.expected = asked, answered, expected


class UntriedError(TriocollectError):
    """A promise of a participant could not be tried; says why."""

    exit_code = Exit.INCOMPLETE


class StateError(TriocollectError):
    """A participant's state holds what a record cannot keep as it is; names the episode and the place."""


class StorageError(TriocollectError):
    """A file cannot be read, written or made durable; what was whole before is whole still."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path: Final = path


class PeerError(TriocollectError):
    """A server that another server asked answered with an error, or not at all.

    `passing`: asking again later may go better (no answer, or a status that says so). `lost`: a process ended
    with what it had of the work, and nobody knows how far it came.
    """

    def __init__(self, message: str, *, passing: bool, lost: bool = False) -> None:
        super().__init__(message)
        self.passing: Final = passing
        self.lost: Final = lost


class BusyError(PeerError):
    """It has no room now, and has begun nothing. `after_s`: when it wants to be asked again, if it says."""

    def __init__(self, message: str, *, after_s: float | None) -> None:
        super().__init__(message, passing=True)
        self.after_s: Final = after_s


class TransportError(TriocollectError):
    """A request brought no usable reply. `kind` is a short stable word: refused, timeout, closed, …"""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind: Final = kind


class NotSentError(TransportError):
    """No byte of the request can have arrived: name, connect or TLS failed."""


class ReplyLostError(TransportError):
    """A byte of the request may have arrived, and no whole reply came."""


class ReplyRefusedError(TransportError):
    """A reply came that we do not take: too large, not HTTP, an encoding we cannot decode.

    `status` is the status line's, when one was read.
    """

    def __init__(self, message: str, *, kind: str, status: int | None = None) -> None:
        super().__init__(message, kind=kind)
        self.status: Final = status


def reason_of(error: BaseException) -> BaseException:
    """What a group of exceptions is about: the user's own wish, then what nobody expected, then ours.

    The first of its kind; what is no group is its own reason.
    """
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, KeyboardInterrupt):
            return leaf
    for leaf in leaves:
        if not isinstance(leaf, TriocollectError):
            return leaf
    return leaves[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
