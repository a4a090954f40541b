"""`triocollect checkpoint`."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from triocollect.checkpoint.asking import PinnedCollector, ask
from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.where import JSON
from triocollect.config.given import Given
from triocollect.config.judge import judge
from triocollect.config.settings import Seconds
from triocollect.errors import ConfigError, DamageError, Exit, StorageError, UsageError
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.reading.collector import collector_of
from triocollect.reading.places import is_directory, places
from triocollect.report.wording import calls_under_way, rows

ABOUT = """Asks the collector that is at work in DIR for a checkpoint and waits for what comes of it; the run
goes on. The checkpoint's id is all that stands on standard output. Works on the collector's own host, and
signals no other process than the one that holds the directory's lock."""
EPILOGUE = """Examples:
  triocollect checkpoint results/checkpoints
  triocollect checkpoint results/checkpoints --timeout 2m --json

Exit codes:
  0    published
  1    internal error
  2    the command line is wrong
  3    not published: the reason is told, and LATEST is as it was
  4    nobody is at work there who could be asked
  130  interrupted; the collector takes the checkpoint all the same"""
TELL_EVERY_S: Final = 5.0

app = command("checkpoint", "DIR [--timeout TIME] [--json]", ABOUT, EPILOGUE)


@app.default
def checkpoint(
    directory: Annotated[str, Parameter(name="DIR", help="A run's checkpoint directory, folder or output.")],
    /,
    *,
    timeout: Annotated[str, Parameter(help="How long to wait for the outcome.", metavar="TIME")] = "15m",
    json: Annotated[bool, JSON] = False,
) -> int:
    """Ask, wait, and tell."""
    patience, problems = judge(Given(timeout, "--timeout", "(command line)", text=True), Seconds)
    if problems:
        raise ConfigError(*problems)
    assert isinstance(patience, float)
    try:
        outcome = ask(_root(Path(directory)), patience, _Waiting().tell)
    except KeyboardInterrupt:
        say.err("interrupted: the collector takes the checkpoint all the same, if it was asked by now")
        return Exit.INTERRUPTED
    if json:
        say.out(msgspec.json.encode(outcome).decode())
    elif outcome.published:
        say.out(outcome.checkpoint_id)
    say.err(_words(outcome))
    return Exit.OK if outcome.published else Exit.INCOMPLETE


def _root(path: Path) -> Path:
    """The checkpoint directory that is meant: of a run's folder or output, the one where somebody is at work.

    Raises UsageError where several are.
    """
    if is_directory(path) or not path.exists():
        return path
    try:
        found = dict.fromkeys(one.directory for one in places(path) if one.directory is not None)
    except UsageError:
        found = {}
    busy = [root for root in found if _is_at_work(root)]
    if len(busy) > 1:
        raise UsageError(f"collectors are at work in {' and in '.join(map(str, busy))}: name one of them")
    if not found and path.is_file():
        raise UsageError(f"{path}: no checkpoint directory is near it; name the one that its run was given")
    return next(iter([*busy, *found]), path)


def _is_at_work(root: Path) -> bool:
    with suppress(DamageError, StorageError):
        return collector_of(root).at_work != "no"
    return False


def _words(outcome: CheckpointOutcome) -> str:
    if not outcome.published:
        return f"no checkpoint: {outcome.reason or 'no reason was given'}"
    anew = f", {rows(outcome.restarted)} would start from the input" if outcome.restarted else ""
    return (
        f"checkpoint {outcome.checkpoint_id}: {rows(outcome.continued)} can be continued, with "
        f"{outcome.work_s:.0f} s of work behind them{anew}"
        + calls_under_way("calls under way", outcome.undelivered, outcome.cut, outcome.kept_tokens)
        + ("; the run stops with it" if outcome.stopped else "")
    )


class _Waiting:
    """What is said meanwhile."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def tell(self, collector: PinnedCollector, waited_s: float) -> None:
        """At once, and then now and again."""
        if waited_s < self._next_s:
            return
        said = f", {waited_s:.0f} s by now" if self._next_s else ""
        say.err(f"process {collector.pid} was asked for a checkpoint; waiting for it{said}")
        self._next_s += TELL_EVERY_S
