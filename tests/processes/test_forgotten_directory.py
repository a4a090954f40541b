"""A command that is given again without the checkpoint directory that holds its rows in flight."""

import os
import subprocess

import pytest

from tests.processes.commands import embedded_run, lines_in, triocollect, until

pytestmark = pytest.mark.processes


def words_of(process):
    words, _ = process.communicate(timeout=120)
    assert "Traceback" not in words
    return words


def test_a_forgotten_checkpoint_directory_is_refused_by_name_and_its_rows_can_be_given_up(tmp_path):
    def run(*more):
        return embedded_run(
            *(tmp_path, "--limit", "8", "--progress", "none", *more),
            repeats=1,
            env={**os.environ, "TRIOCOLLECT_TOKENS_PER_S": "20", "TRIOCOLLECT_EFFECTS_DIR": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    directory = tmp_path / "far/from/the/output"
    first = run("--checkpoint-dir", directory)
    assert until(lambda: lines_in(tmp_path / "counter.jsonl") > 8, 120)
    first.terminate()
    assert "To continue, give the same command again." in words_of(first)
    assert first.returncode == 75
    for more in ([], ["--dry-run"], ["--checkpoint-dir", tmp_path / "another"]):
        again = run(*more)
        assert f"--checkpoint-dir {directory} the last time, which holds 8 rows in flight" in words_of(again)
        assert again.returncode == 4
    assert not (tmp_path / "another").exists()
    status = triocollect("status", tmp_path, stdout=subprocess.PIPE, text=True)
    assert "the same command continues 8" in words_of(status)
    last = run("--accept-drift", "checkpoint_dir")
    assert f"8 rows in flight in {directory} start from their input" in words_of(last)
    assert last.returncode == 0
