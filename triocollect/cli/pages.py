"""How --help looks: plain text in two columns, which fits a pipe, a log and a narrow terminal alike."""

import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_COLUMN: Final = 30
_WIDEST: Final = 110


def page(console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
    """One panel of a help page. Called by cyclopts."""
    if not panel.entries:
        return
    title = _plain(panel.title)
    width = min(options.max_width, _WIDEST)
    lines = [f"{title}:", *(line for entry in panel.entries for line in _entry(entry, width)), ""]
    console.out("\n".join(lines), highlight=False)


def _plain(text: object) -> str:
    text = getattr(text, "primary_renderable", text)  # the library wraps what it was given
    return str(getattr(text, "plain", text or "")).strip()


def _entry(entry: "HelpEntry", width: int) -> list[str]:
    value = f" {entry.metavar}" if entry.metavar else ""
    names = [*filter(None, (entry.positional_label,)), *entry.positive_shorts, *entry.positive_names]
    label = "  " + ", ".join(names) + value
    about = _plain(entry.description)
    if entry.default:
        about += f" [default: {entry.default}]"
    indent = " " * _COLUMN
    lines = textwrap.wrap(about, width, initial_indent=indent, subsequent_indent=indent) or [label]
    if len(label) + 2 > _COLUMN:
        return [label, *lines]
    return [label.ljust(_COLUMN) + lines[0].removeprefix(indent), *lines[1:]] if about else [label]
