"""What `--help` teaches: how to call a command, an example, and what its exit codes mean."""

import re
import subprocess
import sys

import pytest

from triocollect.__main__ import main
from triocollect.cli.app import COMMANDS
from triocollect.errors import Exit

WIDTH = 80


def page_of(capsys, *tokens):
    assert main([*tokens, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_how_it_is_called_and_what_its_exit_codes_mean(capsys, command):
    page = page_of(capsys, command)
    assert page.startswith(f"Usage: triocollect {command}")
    assert " ".join(COMMANDS[command].split()) in " ".join(page.split())
    examples, _, codes = page.partition("\nExamples:\n")[2].partition("\nExit codes:\n")
    assert f"  triocollect {command}" in examples
    told = [int(number) for number in re.findall(r"(?m)^  (\d+) ", codes)]
    assert told == sorted(told)
    assert {0, 2} <= set(told) <= {code.value for code in Exit}


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_no_line_of_a_page_is_broken_in_two_on_a_usual_terminal(capsys, command):
    """A longer line of an example or an exit code would be cut where it cannot be copied."""
    page = page_of(capsys, *filter(None, [command]))
    assert max(map(len, page.splitlines())) <= WIDTH
    epilogue = page.partition("\nExamples:\n")[2]
    assert all(line.startswith("  ") or not line or line == "Exit codes:" for line in epilogue.splitlines())


def test_the_first_page_names_every_command(capsys):
    page = page_of(capsys)
    assert re.findall(r"(?m)^  ([a-z]+)  +[A-Z]", page) == sorted(COMMANDS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_page_that_the_disk_does_not_take_is_an_error_in_words(command):
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m triocollect {command} --help > /dev/full"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr == "triocollect: cannot write to standard output: No space left on device\n"
