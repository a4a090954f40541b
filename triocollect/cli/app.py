"""The commands, and how the words of a command line reach them. Each command is loaded when it is called."""

import contextlib
import importlib
import io
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import cyclopts

from triocollect.cli import say
from triocollect.cli.bare import spell_out
from triocollect.cli.faults import tell
from triocollect.cli.pages import page
from triocollect.errors import Exit

COMMANDS: Final = {
    "run": "Collect: send every row of a data set to its environment server, write one result each.",
    "materialize": "Expand the data set into the rows that would be sent, and stop.",
    "checkpoint": "Ask a run that goes on for a checkpoint.",
    "status": "How a run stands: rows done and left, what a restart continues.",
    "verify": "Whether what a run left adds up: rows, checkpoints, effects.",
    "inspect": "What checkpoints hold, and where one rollout stands in every file.",
    "gc": "Remove what no start needs from a run's checkpoints.",
    "aggregate": "Metrics over one or several outputs.",
    "serve": "Serve the deployment that the package brings along, or one server of it.",
    "demo": "The whole story in under a minute: run, preempt, continue, compare.",
    "fuzz": "Try servers of your own: which promise of the control protocol do they break?",
}
_ABOUT: Final = """Collects rollouts: sends the rows of a JSONL data set to environment servers, a bounded
number at a time, and writes one result each. Interrupted runs continue where they stopped."""
_EXAMPLES: Final = """Start with:
  triocollect demo
  triocollect run --help

The same: python -m triocollect. Version: --version."""


def run(tokens: Sequence[str]) -> int:
    """Run one command line; returns its exit code. Nothing but that and messages come out of here."""
    try:
        code: object = _root(tokens[0] if tokens else "")(
            spell_out(tokens), exit_on_error=False, print_error=False, result_action="return_value"
        )
    except cyclopts.CycloptsError as fault:
        say.err(f"triocollect: {fault}")
        say.err(f"Try: triocollect {' '.join(fault.command_chain or ())} --help".replace("  ", " "))
        return Exit.USAGE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else Exit.INTERNAL
    except BaseException as fault:  # noqa: BLE001  # the outermost edge: one message, one exit code
        return tell(fault)
    return code if isinstance(code, int) else Exit.OK


def _root(called: str) -> cyclopts.App:
    root = _app("triocollect", "COMMAND", _ABOUT, _EXAMPLES)
    for name, about in COMMANDS.items():
        if name == called:
            root.command(importlib.import_module(f"triocollect.cli.{name}").app)
        else:
            root.command(f"triocollect.cli.{name}:app", name=name, help=about)
    return root


def command(name: str, usage: str, about: str, epilogue: str) -> cyclopts.App:
    """An application for one command: what follows its name, what it does, examples and exit codes."""
    assert name in COMMANDS
    return _app(name, f"{name} {usage}", f"{COMMANDS[name]}\n\n{about}".strip(), epilogue)


class _App(cyclopts.App):
    """An application whose help page is a result like any other: one that cannot be written is an error."""

    def help_print(
        self,
        tokens: Annotated[str | Iterable[str] | None, cyclopts.Parameter(show=False)] = None,
        *,
        console: Annotated[object, cyclopts.Parameter(parse=False)] = None,  # noqa: ARG002  # it is ours
    ) -> None:
        """Called by cyclopts. Raises StorageError."""
        with contextlib.redirect_stdout(io.StringIO()) as written:
            super().help_print(tokens)
        say.out(written.getvalue().rstrip("\n"))


def _app(name: str, usage: str, about: str, epilogue: str) -> cyclopts.App:
    return _App(
        name=name,
        usage=f"Usage: triocollect {usage}".replace("triocollect triocollect", "triocollect"),
        help="\n\n".join(" ".join(part.split()) for part in about.split("\n\n")),
        help_epilogue=epilogue,
        help_format="plaintext",
        help_formatter=page,
        version_flags=[],
        suppress_keyboard_interrupt=False,
    )
