"""What the README shows is what the code does."""

from pathlib import Path

from triocollect.protocol.phases import mermaid

README = Path(__file__).parents[1] / "README.md"


def test_the_diagram_of_the_phases_is_the_table():
    shown = README.read_text().partition("<!-- phases -->\n")[2].partition("<!-- /phases -->")[0]
    assert shown == f"```mermaid\n{mermaid().rstrip()}\n```\n"
