"""What the README shows is what the code does."""

import re
import tomllib
from pathlib import Path

from triocollect.protocol.phases import mermaid

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def test_the_diagram_of_the_phases_is_the_table():
    shown = README.read_text().partition("<!-- phases -->\n")[2].partition("<!-- /phases -->")[0]
    assert shown == f"```mermaid\n{mermaid().rstrip()}\n```\n"


def test_the_rooms_are_those_whose_imports_are_checked_floor_by_floor():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = {
        (floor, room.strip().removeprefix("triocollect."))
        for floor, rooms in enumerate(reversed(layers))
        for room in re.split("[|:]", rooms)
    }
    rows = re.findall(r"^\| (\d+) \| (`.*?`) \|", README.read_text(), re.MULTILINE)
    assert {(int(floor), room) for floor, rooms in rows for room in re.findall("`(.*?)`", rooms)} == checked


def test_where_a_change_goes_is_there():
    table = README.read_text().partition("| I want to … | go to |\n|---|---|\n")[2].partition("\n\n")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", table)
    rooms = ("", "servers/resources/", "conformance/")  # a file after a folder is in it
    assert named
    assert not [
        name for name in named if not any((ROOT / "triocollect" / room / name).exists() for room in rooms)
    ]
