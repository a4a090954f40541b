"""The command that the page for authors ends with: a server of somebody else's in the embedded deployment."""

import json
import os
import re
import shlex
import subprocess

import pytest

from tests.participant.page import commands_of_the_page, text_of_the_server, uvicorn
from tests.processes.commands import triocollect, until

pytestmark = pytest.mark.processes

PATIENCE_S = 120.0  # the machine may be busy
IN_FLIGHT = 8  # rows of the page's run, of as many throws each
TOKEN = "a word that nobody guesses"


def throws(folder):
    """How often the dice have been thrown by now."""
    return (folder / "uvicorn.log").read_text().count("/throw HTTP")


def thrown(record):
    """What the dice said, call after call."""
    items = record["response"]["output"]
    return [json.loads(item["output"])["output"] for item in items if item["type"] == "function_call_output"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "dice.py").write_text(text_of_the_server())
    making_rows, _ = commands_of_the_page()
    subprocess.run(["bash", "-c", making_rows], cwd=tmp_path, check=True)
    return tmp_path


def started(folder, dice, **environ):
    """The page's run, with these dice."""
    program, *words = shlex.split(commands_of_the_page()[1])
    assert program == "triocollect"
    words = [f"dice={str(dice.base_url).rstrip('/')}" if "dice=http" in word else word for word in words]
    return triocollect(
        *words, cwd=folder, env=os.environ | {"TRIOCOLLECT_CONTROL_TOKEN": TOKEN} | environ,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_the_dice_of_the_page_are_stopped_in_mid_run_and_fresh_ones_go_on(folder):
    with uvicorn(folder, folder / "ckpt", TOKEN) as dice:
        with started(folder, dice, TRIOCOLLECT_TOKENS_PER_S="20") as run:
            assert until(lambda: run.poll() is not None or throws(folder) >= 3 * IN_FLIGHT, PATIENCE_S)
            run.terminate()
            words, _ = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 75, words
        assert "rows in flight go on from where they were cut" in words
    with uvicorn(folder, folder / "ckpt", TOKEN) as dice:
        with started(folder, dice) as run:
            words, _ = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 0, words
    kept = re.search(r"Cut and continued: (\d+) row.*; model calls not made again: (\d+)", words)
    assert min(map(int, kept.groups())) > 0
    assert "started from the input again" not in words
    assert "Starting the servers that the rows need\n" in words
    assert "without --checkpoint-dir" not in words
    records = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert sorted(record["_ng_rollout_index"] for record in records) == list(range(64))
    for record in records:
        told = [tuple(map(int, re.findall(r"\d+", said))) for said in thrown(record)]
        assert [total for _, total in told] == [sum(face for face, _ in told[:n]) for n in range(1, 9)]
