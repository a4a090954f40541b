"""Whether what a run left adds up, from its files alone."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from triocollect.durable import open_file, read_at_most, unreadable
from triocollect.errors import DamageError
from triocollect.protocol.files import RunFile
from triocollect.protocol.values import NOT_JSON
from triocollect.report.account import Account, read_account
from triocollect.report.calls import Spent
from triocollect.report.machine import as_json
from triocollect.report.outputs import MOST_RUN_BYTES
from triocollect.report.status import OutputStatus, status
from triocollect.report.wording import by_class, rows, several
from triocollect.rows.materialize import read_rows
from triocollect.rows.names import materialized_path, run_path

NAMED: Final = 20  # faults of one kind that are told one by one


class Cuts(msgspec.Struct, frozen=True):
    """So many `calls` go on after `tokens` tokens in all; `lost` more cannot: they are generated again."""

    calls: int
    tokens: int
    lost: int = 0

    def words(self) -> str:
        """For people."""
        lost = "" if not self.lost else f"; {several(self.lost, 'cut')} lost: generated again"
        return f"{several(self.calls, 'call')} under way kept with {several(self.tokens, 'token')}{lost}"


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What LATEST of a checkpoint directory leads to; no id: there is no checkpoint, or it is damaged.

    `work_s`: seconds that its rows had behind them, None where no outcome of it is on record. `also`: other
    checkpoints that are kept, `passed_over`: what bears the name of one and is not whole. `unfinished`: so
    many of the continued rows have not ended since, None where that cannot be told. `goes_on_from`: the one
    that a start takes where LATEST's cannot be used. `of_another`: of an output that was not asked
    about.
    """

    directory: str
    checkpoint_id: str | None = None
    continued: tuple[str, ...] = ()  # rollout ids
    unfinished: int | None = None
    of_another: bool = False
    restarted: int = 0
    bytes: int = 0
    work_s: float | None = None
    also: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    goes_on_from: str | None = None
    cuts: Cuts | msgspec.UnsetType = msgspec.UNSET


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has to be so: `faults` speak against it; `open` says why it cannot be judged.

    `name` is for programs and stays the same.
    """

    name: str
    says: str
    faults: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """yes, NO, or a question mark where it cannot be judged."""
        return "NO" if self.faults else "?" if self.open else "yes"


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was looked at, and the facts that follow, each with its verdict."""

    outputs: tuple[OutputStatus, ...]
    checkpoints: tuple[Checkpoint, ...]
    account: Account | None
    facts: tuple[Fact, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong; what cannot be judged is not."""
        return all(fact.holds for fact in self.facts)

    def as_json(self) -> bytes:
        """For programs: one JSON object; `judged` where no fact is open."""
        judged = not any(fact.open for fact in self.facts)
        return as_json({"holds": self.holds, "judged": judged, **msgspec.structs.asdict(self)})

    def text(self) -> str:
        """For people."""
        return "\n".join(_lines(self))


def verify(
    outputs: Sequence[Path],
    checkpoints: Sequence[Checkpoint],
    effects: Path | None,
    more: Iterable[Fact] = (),
) -> Verified:
    """Look at outputs, at what was found in checkpoint directories, and at a folder of effects files.

    `more`: facts that others have found out. Changes nothing. Effects are those of the only output.
    Raises UsageError, DamageError, StorageError.
    """
    found = tuple(one for output in outputs for one in status(output).outputs)
    account = None if effects is None else read_account(outputs[0], effects)
    facts = [*_facts_of_rows(found), *_facts_of_checkpoints(outputs, checkpoints), *more]
    if account is not None:
        says = "every result came about in one line: nothing was done twice, nothing is missing"
        facts.append(Fact(name="one_line", says=says, faults=account.faults[:NAMED]))
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
    yield Fact(name="one_result", says="no row has two results", faults=tuple(twice))
    strange = [words for one in found for words in _strange(one)]
    says = "every line is a result, or a failure, of a row of the data set"
    yield Fact(name="known_rows", says=says, faults=tuple(strange))
    rows_of = [_other_rows(Path(one.output)) for one in found]
    yield Fact(
        name="same_rows",
        says="the rows are those that the run began with",
        faults=tuple(wrong for wrong, _ in rows_of if wrong is not None),
        open=tuple(why for _, why in rows_of if why is not None),
    )


def _strange(one: OutputStatus) -> Iterator[str]:
    if one.damaged or one.misplaced:
        yield from one.findings
    if one.unknown:
        yield f"{one.output}: {rows(one.unknown)} that the data set does not have"


def _other_rows(output: Path) -> tuple[str | None, str | None]:
    """(What speaks against it, why it cannot be judged)."""
    try:
        run_file = msgspec.json.decode(read_at_most(run_path(output), MOST_RUN_BYTES), type=RunFile)
        with open_file(materialized_path(output)) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        return None, f"{error.filename} is not there"
    except OSError as error:
        return str(unreadable(output, error)), None
    except NOT_JSON as error:
        return f"{run_path(output)} is damaged: {error}", None
    if digest == run_file.rows_sha256:
        return None, None
    return f"{materialized_path(output)}: other bytes than {run_path(output).name} says", None


def _facts_of_checkpoints(outputs: Sequence[Path], checkpoints: Sequence[Checkpoint]) -> Iterator[Fact]:
    if not checkpoints:
        return
    yield Fact(
        name="whole",
        says="LATEST, and every file that it and the other kept checkpoints lead to, is what was written",
        faults=tuple(fault for one in checkpoints for fault in one.faults),
    )
    wanted = {name for one in checkpoints for name in one.continued}
    if outputs and wanted:
        unknown = sorted(wanted - _rollouts(outputs, wanted))
        yield Fact(
            name="continued_rows",
            says="what it continues are rows of the data set",
            faults=tuple(f"{name} is no row of it" for name in unknown[:NAMED]),
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
        yield f"{fact.verdict:<3}  {fact.says}"
        yield from (f"       {fault}" for fault in fact.faults)
        yield from (f"       cannot be judged: {why}" for why in fact.open)


def _lines_of_output(one: OutputStatus) -> Iterator[str]:
    yield one.output
    known = "" if one.expected is None else f"{one.expected} expected = "
    left = "" if one.left is None else f" + {one.left} left"
    yield f"  {known}{one.succeeded} succeeded + {one.failed} failed{left}"
    if one.failed:
        yield f"  failed: {by_class(one.failures_by_class)}"


def _words(checkpoint: Checkpoint) -> str:
    if checkpoint.checkpoint_id is None:
        if checkpoint.goes_on_from is not None:
            return f"what LATEST names cannot be used; a start goes on from {checkpoint.goes_on_from}"
        return "no checkpoint that can be used" if checkpoint.faults else "no checkpoint"
    work = "" if checkpoint.work_s is None else f" with {checkpoint.work_s:.0f} s of work behind them"
    cut, left = len(checkpoint.continued), checkpoint.unfinished
    if checkpoint.of_another:
        return (
            f"{checkpoint.checkpoint_id}: {rows(cut)} in flight of another output; {checkpoint.bytes} bytes"
        )
    can = "can be continued" if left in {None, cut} else f"at the cut, {left} of them unfinished still"
    return (
        f"{checkpoint.checkpoint_id}: {rows(cut)} in flight {can}{work}, "
        f"{checkpoint.restarted} would start from their input; {checkpoint.bytes} bytes"
        + (f"; {checkpoint.cuts.words()}" if isinstance(checkpoint.cuts, Cuts) else "")
    )
