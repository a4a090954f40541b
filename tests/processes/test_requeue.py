"""A job that is started again while the old one still checkpoints waits, and goes on from there."""

import json
import signal
import subprocess

import pytest

from tests.processes.commands import lines_in, triocollect, until
from triocollect.deployment import datasets

pytestmark = pytest.mark.processes

PATIENCE_S = 120.0


def test_a_requeued_job_waits_for_the_old_one_and_continues_what_that_cut(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_EFFECTS_DIR", str(tmp_path / "effects"))
    rows = ["run", "-i", datasets.path("counter"), "--limit", "10", "-r", "4", "-c", "8"]
    words = [*rows, "-o", tmp_path / "out.jsonl", "--checkpoint-dir", tmp_path / "ckpt"]
    monkeypatch.setenv("TRIOCOLLECT_TOKENS_PER_S", "3")  # there is much left to do when the new one comes
    old = triocollect(*words, stderr=subprocess.DEVNULL)
    new = None
    try:
        assert until((tmp_path / "ckpt/collector.pid").exists, PATIENCE_S)
        monkeypatch.delenv("TRIOCOLLECT_TOKENS_PER_S")
        waits = ["--wait-for-lock", PATIENCE_S, "--progress", "plain"]
        new = triocollect(*words, *waits, stderr=subprocess.PIPE, text=True)
        said = next(line for line in new.stderr if "waiting up to" in line)
        assert f"process {old.pid}" in said
        assert until(lambda: lines_in(tmp_path / "effects/counter.jsonl") >= 4, PATIENCE_S)
        old.send_signal(signal.SIGTERM)
        assert old.wait(PATIENCE_S) == 75
        _, told = new.communicate(timeout=PATIENCE_S)
        assert new.returncode == 0, told
        assert "rows go on from checkpoint c-" in told
    finally:
        for run in filter(None, (old, new)):
            run.kill()
            run.wait()
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert len({(row["_ng_task_index"], row["_ng_rollout_index"]) for row in written}) == len(written) == 40
    assert any(row.get("_ng_attempt_index") == 1 for row in written), "the cut has to meet rows in flight"
