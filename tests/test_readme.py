"""What the README shows is what the code does."""

import os
import re
import subprocess
import sys
import tomllib
from itertools import islice
from pathlib import Path

import pytest

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


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)


def test_the_rows_that_it_copies_are_there():
    source, copy = re.search(r"^cp (\S+) (\S+)", "".join(blocks("sh")), re.MULTILINE).groups()
    assert (ROOT / source).is_file()
    assert copy == "rows.jsonl"


@pytest.mark.processes
@pytest.mark.parametrize(("number", "says"), [(0, "4 "), (1, "3-0 ")])
def test_a_program_of_it_can_be_pasted_as_it_is(number, says, tmp_path):
    with (ROOT / "triocollect/deployment/datasets/counter.jsonl").open() as rows:
        (tmp_path / "rows.jsonl").write_text("".join(islice(rows, 4)))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-c", blocks("python")[number]], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert says in ran.stdout
