"""What an expectation of a case can say. Episodes are written `a`, `a/2`, `a@1`: letter, rollout, attempt."""

from collections.abc import Callable, Mapping
from pathlib import Path
from signal import Signals
from typing import TypeAlias

from attrs import field, frozen

from tests.cases.participant import Received
from tests.cases.taking_part import Deployment

Answers: TypeAlias = Mapping[str, str | bytes]


@frozen
class Untouched:
    """Nothing in the folder came, went or changed by a byte."""


@frozen(kw_only=True)
class Grown:
    """The files as they were, then whole lines for exactly these episodes, and no byte else.

    `cut` bytes of a torn tail are gone from the output, `failures_cut` from the sidecar; all of them are in
    the torn file, in that order. `fresh`: nothing is kept of what was there.
    """

    output: str = ""
    failures: str = ""  # `a@1:agent_run_error`
    cut: int = 0
    failures_cut: int = 0
    fresh: bool = False


@frozen(kw_only=True)
class Checkpoints:
    """The checkpoint directory afterwards: what LATEST names, the folders of checkpoints, and foreign files.

    A folder that was there before and is there still has not changed by a byte.
    """

    latest: int | None = None
    folders: str = ""  # numbers
    foreign: str = ""  # names
    damaged: bool = False  # LATEST is as it was, and can be read no better


@frozen(kw_only=True)
class Seen:
    """One run, afterwards. `lines` and `failures` are those it appended, without newlines."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    requests: tuple[Received, ...]
    lines: tuple[bytes, ...]
    failures: tuple[bytes, ...]


@frozen(kw_only=True)
class Run:
    """One command over a case, and everything that must be true of it.

    Runs with the same `folder` follow each other there; a new one is laid out from `input` and `earlier`.
    `says`: texts of standard error, in which `{output.at[2]}` stands for `FILE, line 2 (byte N)`.
    `answers`: a letter or `*` to the file or the bytes of its reply; all others get a good one.
    """

    exit_code: int
    says: tuple[str, ...]
    disk: Untouched | Grown
    sent: str = ""
    continued: str = ""  # of `sent`: goes on from where a checkpoint has it
    retired: str = ""  # what the environment was told to stop
    checkpoints: Checkpoints | None = None
    signal: Signals | None = None  # comes when all that is `sent` is under way
    pid_1: bool = False  # a process of its own, the first of a new world
    counts: Mapping[str, int] = field(factory=dict)  # fields of the report
    folder: str = "run"
    input: str = "input.jsonl"
    earlier: str = "out.jsonl"
    flags: tuple[str, ...] = ()
    answers: Answers = field(factory=dict)
    change: Callable[[Path], None] | None = None  # what befalls the folder first
    servers: Callable[[Deployment], None] | None = None  # what befalls those that take part
    also: Callable[[Seen], None] | None = None
    process: bool = False  # as a process of its own, `python -m triocollect`
    rival: "Run | None" = None  # given while this one is under way
    text: str = "fresh"  # in good replies
    file_limit: int | None = None  # the system writes no file beyond so many bytes
    peak_below: int | None = None  # bytes of memory
    sent_before: str = ""  # of `sent`: was sent by an earlier run too, which could write nothing of it


@frozen
class Case:
    """The runs of a case in order. `choice`: where its expectation leaves one, what ours is and why."""

    runs: tuple[Run, ...]
    choice: str = ""
    checkpoints: str | None = None  # the folder of its files that is the checkpoint directory
    same_servers: bool = False  # for all its runs; else each has fresh ones, where there are checkpoints
    with_ids: bool = False
