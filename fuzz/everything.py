"""`python -m fuzz all`: every command that explores, one after another, each for its part of the time.

A part is done in turns of about two minutes, each with dice of its own: after each it is said how far it is,
and what was counted so far is kept, in a folder of this pass alone. Nothing ends it early: neither what a
command finds, nor one that breaks, nor one that this machine has not what it takes for.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import define, field

from fuzz.commands import COMMANDS, Command, Options, again, function_of
from fuzz.report import report
from fuzz.tally import FOLDER, Account, Tally, keep

MINUTES: Final = 40.0
TURN_S: Final = 120.0
APART: Final = 104_729  # between the seeds of two turns
INTERRUPTED: Final = 130


def described(commands: Mapping[str, Command] = COMMANDS) -> str:
    """Which commands have a part, and how large it is."""
    parts = {name: one.part for name, one in commands.items() if one.part}
    return ", ".join(f"{name} {part / sum(parts.values()):.1%}" for name, part in parts.items())


@define
class Everything:
    """One pass. `folder`: where its accounts are, and no others."""

    seconds: float
    seed: int
    jobs: int = 2
    commands: Mapping[str, Command] = COMMANDS
    above: Path = FOLDER
    left_out: list[str] = field(factory=list)
    _accounts: dict[str, Account] = field(factory=dict)
    _began: float = field(factory=time.monotonic)

    @property
    def folder(self) -> Path:
        return self.above / f"all-{self.seed}"

    def explore(self) -> int:
        """All of it, and the report. 1 where something was violated, 130 after a Ctrl-C."""
        for old in self.folder.glob("*.msgpack"):
            old.unlink()
        code = 0
        todo = [(name, one) for name, one in self.commands.items() if one.part]
        try:
            for nth, (name, command) in enumerate(todo):
                parts = sum(one.part for _, one in todo[nth:])
                self._one_command(name, command, self._left() * command.part / parts)
        except KeyboardInterrupt:
            print("interrupted; until then:", flush=True)
            code = INTERRUPTED
        accounts = list(self._accounts.values())
        print(report(accounts))
        for why in self.left_out:
            print(f"left out: {why}")
        print(f"to see this again: python -m fuzz report --folder {self.folder}")
        return code or int(any(account.violations for account in accounts))

    def _left(self) -> float:
        return max(0.0, self._began + self.seconds - time.monotonic())

    def _one_command(self, name: str, command: Command, seconds: float) -> None:
        """In turns; the first has the seed of the pass. What a turn leaves of the time the next ones have."""
        whole, until = Tally(name, self.seed), time.monotonic() + seconds
        turns = max(1, round(seconds / TURN_S))
        for nth in range(turns):
            left = max(0.0, until - time.monotonic()) / (turns - nth)
            options = Options(left, self.seed + nth * APART, self.jobs)
            turn = Tally(name, options.seed)
            try:
                _turn(command, options, turn)
            except SystemExit as missing:
                self.left_out.append(f"{name}: {missing}")
                print(f"{self._clock()}  {name} is left out: {missing}", flush=True)
                return
            except KeyboardInterrupt:
                self._count(whole, turn.account())
                raise
            self._count(whole, turn.account())

    def _count(self, whole: Tally, turn: Account) -> None:
        whole.take_in(turn)
        so_far = whole.account()
        self._keep(so_far)
        print(f"{self._clock()}  {_told(so_far)}", flush=True)
        for words in turn.violations:
            print(words, flush=True)

    def _keep(self, so_far: Account) -> None:
        self._accounts[so_far.command] = so_far
        try:
            keep(so_far, self.folder)
        except OSError as error:  # the report at the end has it all the same
            print(f"{self._clock()}  the account of {so_far.command} is not kept: {error}", flush=True)

    def _clock(self) -> str:
        spent = time.monotonic() - self._began
        return f"{_minutes(spent)} of {_minutes(self.seconds)}"


def _turn(command: Command, options: Options, tally: Tally) -> None:
    """Raises SystemExit where the machine has not what the command needs."""
    try:
        function_of(command)(options, tally)
    except Exception as error:  # noqa: BLE001  # the other commands have their turns all the same
        name = tally.command
        tally.violation(f"{name} itself broke: {type(error).__name__}: {error}", again(name, options))


def _told(account: Account) -> str:
    distinct = sum(kind.distinct for kind in account.kinds.values())
    violations = len(account.violations)
    return (
        f"{account.command}: explored {account.explored:,}, {distinct:,} different faults"
        + f", violations {violations}" * bool(violations)
    )


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
