"""Whether what a run left adds up, from its files alone."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from triocollect.durable import unreadable
from triocollect.errors import DamageError
from triocollect.protocol.files import RunFile
from triocollect.report.account import Account, read_account
from triocollect.report.calls import Spent
from triocollect.report.status import OutputStatus, status
from triocollect.report.wording import by_class, rows, several
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import materialized_path, run_path

_NAMED: Final = 20  # faults of one kind that are told one by one


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What LATEST of a checkpoint directory leads to; no id: there is no checkpoint, or it is damaged.

    `work_s`: seconds that its rows had behind them, None where no outcome of it is on record. `also`: other
    checkpoints that are kept, `passed_over`: what bears the name of one and is not whole.
    """

    directory: str
    checkpoint_id: str | None = None
    continued: tuple[str, ...] = ()  # rollout ids
    restarted: int = 0
    bytes: int = 0
    work_s: float | None = None
    also: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class Fact(msgspec.Struct, frozen=True):
    """Something that has to be so, and what speaks against it."""

    says: str
    faults: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.faults


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was looked at, and the facts that follow."""

    outputs: tuple[OutputStatus, ...]
    checkpoints: tuple[Checkpoint, ...]
    account: Account | None
    facts: tuple[Fact, ...]

    @property
    def holds(self) -> bool:
        """Whether everything adds up."""
        return all(fact.holds for fact in self.facts)

    def as_json(self) -> bytes:
        """For programs: one JSON object."""
        return msgspec.json.encode({"holds": self.holds, **msgspec.structs.asdict(self)})

    def text(self) -> str:
        """For people."""
        return "\n".join(_lines(self))


def verify(outputs: Sequence[Path], checkpoints: Sequence[Checkpoint], effects: Path | None) -> Verified:
    """Look at outputs, at what was found in checkpoint directories, and at a folder of effects files.

    Changes nothing. Effects are those of the only output. Raises UsageError, DamageError, StorageError.
    """
    found = tuple(one for output in outputs for one in status(output).outputs)
    account = None if effects is None else read_account(outputs[0], effects)
    facts = [*_facts_of_rows(found), *_facts_of_checkpoints(outputs, checkpoints)]
    if account is not None:
        says = "every result came about in one line: nothing was done twice, nothing is missing"
        facts.append(Fact(says, account.faults[:_NAMED]))
    return Verified(outputs=found, checkpoints=tuple(checkpoints), account=account, facts=tuple(facts))


def saved(account: Account) -> Iterator[str]:
    """What checkpoints were good for, in sentences: of rows, of calls, and what else it would have cost."""
    yield (
        f"{rows(account.continued)} went on from where they were cut, "
        f"with {several(account.carried, 'effect')} done before; {account.restarted} began anew"
    )
    if (calls := account.calls) is not None:
        yield f"policy calls not repeated: {_words_of(calls.kept)}; made again: {_words_of(calls.again)}"
        yield (
            f"from the input it would have been {_words_of(calls.from_input)} made again, "
            f"of {_words_of(calls.made)} in all"
        )


def _words_of(spent: Spent) -> str:
    return f"{spent.calls} ({several(spent.tokens, 'token')})"


def _facts_of_rows(found: Sequence[OutputStatus]) -> Iterator[Fact]:
    if not found:
        return
    twice = [
        f"{one.output}: {several(one.duplicates, 'result')} of rows that have one"
        for one in found
        if one.duplicates
    ]
    yield Fact("no row has two results", tuple(twice))
    strange = [words for one in found for words in _strange(one)]
    yield Fact("every line is a result, or a failure, of a row of the data set", tuple(strange))
    other = [words for one in found for words in _other_rows(Path(one.output))]
    yield Fact("the rows are those that the run began with", tuple(other))


def _strange(one: OutputStatus) -> Iterator[str]:
    if one.damaged or one.misplaced:
        yield from one.findings
    if one.unknown:
        yield f"{one.output}: {rows(one.unknown)} that the data set does not have"


def _other_rows(output: Path) -> Iterator[str]:
    try:
        run_file = msgspec.json.decode(run_path(output).read_bytes(), type=RunFile)
        with materialized_path(output).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        yield f"{error.filename} is not there"
    except OSError as error:
        raise unreadable(output, error) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        yield f"{run_path(output)} is damaged: {error}"
    else:
        if digest != run_file.rows_sha256:
            yield f"{materialized_path(output)}: other bytes than {run_path(output).name} says"


def _facts_of_checkpoints(outputs: Sequence[Path], checkpoints: Sequence[Checkpoint]) -> Iterator[Fact]:
    if not checkpoints:
        return
    yield Fact(
        "LATEST, and every file that it leads to, is what was written",
        tuple(fault for one in checkpoints for fault in one.faults),
    )
    wanted = {name for one in checkpoints for name in one.continued}
    if outputs and wanted:
        unknown = sorted(wanted - _rollouts(outputs, wanted))
        yield Fact(
            "what it continues are rows of the data set",
            tuple(f"{name} is no row of it" for name in unknown[:_NAMED]),
        )


def _rollouts(outputs: Iterable[Path], wanted: Collection[str]) -> set[str]:
    """Those of the wanted rollouts that these outputs have rows for."""
    found = set[str]()
    for output in outputs:
        if (path := materialized_path(output)).exists():
            try:
                found.update(row.rollout_id for row in read_rows(path) if row.rollout_id in wanted)
            except DamageError:
                continue  # which is told of the rows already
    return found


def _lines(verified: Verified) -> Iterator[str]:
    for output in verified.outputs:
        yield from _lines_of_output(output)
    for checkpoint in verified.checkpoints:
        yield checkpoint.directory
        yield f"  {_words(checkpoint)}"
        yield from (f"  also kept: {name}" for name in checkpoint.also)
        yield from (f"  no use: {why}" for why in checkpoint.passed_over)
    if (account := verified.account) is not None:
        yield "what the servers wrote down"
        yield f"  {several(account.results, 'result')} with {several(account.effects, 'effect')}"
        if account.lost:
            yield f"  done for nothing, no result has them: {several(account.lost, 'effect')}"
        if account.continued or account.restarted:
            yield from (f"  {words}" for words in saved(account))
    for fact in verified.facts:
        yield f"{'yes' if fact.holds else 'NO '}  {fact.says}"
        yield from (f"       {fault}" for fault in fact.faults)


def _lines_of_output(one: OutputStatus) -> Iterator[str]:
    yield one.output
    known = "" if one.expected is None else f"{one.expected} expected = "
    left = "" if one.left is None else f" + {one.left} left"
    yield f"  {known}{one.succeeded} succeeded + {one.failed} failed{left}"
    if one.failed:
        yield f"  failed: {by_class(one.failures_by_class)}"


def _words(checkpoint: Checkpoint) -> str:
    if checkpoint.checkpoint_id is None:
        return "no checkpoint that can be used" if checkpoint.faults else "no checkpoint"
    work = "" if checkpoint.work_s is None else f" with {checkpoint.work_s:.0f} s of work behind them"
    return (
        f"{checkpoint.checkpoint_id}: {rows(len(checkpoint.continued))} in flight can be continued{work}, "
        f"{checkpoint.restarted} would start from their input; {checkpoint.bytes} bytes"
    )
