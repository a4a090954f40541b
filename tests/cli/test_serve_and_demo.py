"""`serve` and `demo`, as processes."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import msgspec
import pytest

from triocollect.__main__ import main
from triocollect.deployment import provisions
from triocollect.report.account import Account
from triocollect.report.verify import saved

PROGRAM = [sys.executable, "-m", "triocollect"]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["everything"], "WHAT must be one of all, environment"),
        (["--port", "http"], "--port (command line): needs a whole number"),
        (["--model-url", "host:1"], "--model-url (command line): needs an http:// or https:// URL"),
        (["agent", "--peer", "counter=http://h:1"], "give --peer NAME=URL"),
        (["agent", "--peer", "counter"], "--peer (command line): needs NAME=URL"),
        (["agent", "--peer", "environment=http://h:1"], "the agent server asks policy_model, resources"),
        (["model", "--peer", "counter=http://h:1"], "the policy_model server asks inference; leave it out"),
        (["counter", "--peer", "dice=http://h:1"], "the counter server asks nobody; leave it out"),
        (["--peer", "agent=http://h:1"], "--peer agent: all servers start their own"),
        (["--peer", "x_agent=http://h:1"], "peer x_agent: a resources server cannot be called so here"),
        (["agent", "--peer", "counter=https://h:1"], "are at http://HOST:PORT here"),
        (["agent", "--peer", "counter=http://h:1/path"], "are at http://HOST:PORT here"),
        (["agent", "--peer", "counter=http://h:1", "--peer", "counter=http://h:2"], "is given twice"),
        (["--grace", "5"], "--control-token-file and --grace need --checkpoint-dir"),
        (
            ["--checkpoint-dir", "ckpt"],
            "need a control token: give --control-token-file, or set TRIOCOLLECT_",
        ),
        (["--checkpoint-dir", "ckpt", "--control-token-file", "nowhere"], "cannot read nowhere"),
        (["--checkpoint-dir", "ckpt", "--control-token-file", __file__], "others may read the control token"),
        (
            ["model", "--model-url", "http://h:1", "--model-api-key-file", "nowhere"],
            "cannot read nowhere: No such file",
        ),
    ],
)
def test_what_cannot_be_served_is_told(tokens, words, capsys):
    assert main(["serve", *tokens]) == 2
    assert words in capsys.readouterr().err


def test_a_checkpoint_directory_that_cannot_be_made_is_told_before_anything_starts(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", "nobody guesses it")
    (tmp_path / "file").touch()
    assert main(["serve", "--checkpoint-dir", str(tmp_path / "file" / "ckpt")]) == 2
    assert "ckpt: it cannot be made: Not a directory" in capsys.readouterr().err


def test_a_demo_cannot_be_kept_where_no_folder_can_be(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["demo", "--keep", str(tmp_path / "file")]) == 2
    assert "file: File exists; name another folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["serve"], ["serve", "counter"], ["demo"]])
def test_without_the_extra_the_command_that_installs_it_is_told(command, monkeypatch, capsys):
    monkeypatch.setattr(provisions, "find_spec", lambda _: None)
    assert main(command) == 2
    assert "pip install 'triocollect[servers]'" in capsys.readouterr().err


@pytest.mark.processes
def test_one_server_alone_answers_and_ends_on_term():
    with subprocess.Popen([*PROGRAM, "serve", "counter"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip().removeprefix("serving counter: ")
        with urllib.request.urlopen(f"{url}/livez", timeout=30) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGTERM)
    assert server.returncode == 0


@pytest.mark.processes
def test_the_demo_is_preempted_and_repeats_nothing(tmp_path, capsys):
    environ = {**os.environ, "TRIOCOLLECT_CONCURRENCY": "1"}  # which is of no meaning to the demo
    told = subprocess.run(
        [*PROGRAM, "demo", "--keep", str(tmp_path / "demo")],
        capture_output=True, text=True, timeout=300, check=False, env=environ,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("   yes  ") == 8
    keys = [
        (record["_ng_task_index"], record["_ng_rollout_index"], record.get("_ng_attempt_index", 0))
        for record in map(json.loads, (tmp_path / "demo" / "out.jsonl").read_text().splitlines())
    ]
    assert sorted((task, rollout) for task, rollout, _ in keys) == [(task, 0) for task in range(24)]
    assert main(["demo", "--keep", str(tmp_path / "demo")]) == 2
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "demo"), "--json"]) == 0
    again = capsys.readouterr().out
    account = msgspec.json.decode(again, type=dict[str, msgspec.Raw])["account"]
    verified = msgspec.json.decode(account, type=Account)
    assert all(words in told.stdout for words in saved(verified))
    assert verified.continued == sum(attempt > 0 for _, _, attempt in keys) > 0
    assert f"Cut and continued: {verified.continued} rows" in (tmp_path / "demo" / "second.log").read_text()
    assert verified.carried > 0
    assert (verified.restarted, verified.lost) == (0, 0)
