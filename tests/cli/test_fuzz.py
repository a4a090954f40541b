"""`fuzz`: a wrong command line is told before anybody is asked, and a broken promise is exit code 3."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from triocollect.__main__ import main
from triocollect.errors import Exit, UsageError

REPOSITORY = Path(__file__).parents[2]
TOKEN = "a word that nobody guesses"


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([], "name a server that is to be tried: --participant KIND=URL"),
        (["--participant", "resources"], "--participant (command line): needs KIND=URL"),
        (["--participant", "inference=http://h:1"], "needs one of"),
        (["--environment-url", "h:1"], "--environment-url (command line): needs an http:// or https:// URL"),
        (["--seconds", "long", "--seed", "x"], "--seed (command line): needs a whole number"),
        (["--participant", "agent=http://h:1", "--work", "v1"], "--work v1: needs the path of a route"),
        (
            ["--participant", "agent=http://h:1", "--checkpoint-dir", "nowhere"],
            "nowhere: there is no such folder",
        ),
        (["--participant", "agent=http://h:1", "-i", "nowhere"], "nowhere: no such file"),
        (
            ["--participant", "agent=http://h:1", "--participant", "model=http://h:2", "--restart", "x"],
            "--work and --restart are one server's",
        ),
        (["--participant", "agent=http://h:1", "--restart", "'"], "--restart"),
        (["--participant", "agent=http://h:1", "--restart", "  "], "--restart '  ': names no command"),
        (["--participant", "agent=http://h:1", "--restart", ""], "--restart '': names no command"),
        (["--participant", "agent=http://h:1", "--restart", "'' x"], "names no command"),
    ],
)
def test_a_wrong_command_line_is_told(tokens, words, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    assert main(["fuzz", *tokens]) == Exit.USAGE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("line", ["[1]\n", "{\n", "\n\n"])
def test_a_row_that_is_none_is_told_with_its_place(line, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(line)
    assert main(["fuzz", "--participant", "agent=http://h:1", "-i", str(rows)]) == Exit.USAGE
    assert str(rows) in capsys.readouterr().err


def test_without_a_token_nobody_is_asked(capsys, monkeypatch):
    monkeypatch.delenv("TRIOCOLLECT_CONTROL_TOKEN", raising=False)
    assert main(["fuzz", "--participant", "agent=http://h:1"]) == Exit.USAGE
    assert "control token" in capsys.readouterr().err


def test_where_nobody_listens_it_asks_whether_it_is_running(capsys, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    assert main(["fuzz", "--participant", f"agent={url}"]) == Exit.USAGE
    assert "is it running?" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_it_it_says_goodbye_first_and_its_exit_code_tells_what(number, capsys, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)
    said = []

    async def examined(*_):
        try:
            async with trio.open_nursery() as nursery:  # as where several calls are under way
                nursery.start_soon(trio.sleep_forever)
                signal.raise_signal(number)
                await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                if number != signal.SIGINT:
                    signal.raise_signal(number)
                await trio.sleep(0.01)
            said.append("goodbye")

    monkeypatch.setattr("triocollect.cli.fuzz.examine_url", examined)
    assert main(["fuzz", "--participant", "agent=http://h:1"]) == 128 + number
    assert said == ["goodbye"]
    assert "what was closed opens by itself" in capsys.readouterr().err


def test_what_nohup_has_ignored_ends_nothing(monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", TOKEN)

    async def examined(*_):
        signal.raise_signal(signal.SIGHUP)
        await trio.sleep(0.01)
        raise UsageError("nobody is there")

    monkeypatch.setattr("triocollect.cli.fuzz.examine_url", examined)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main(["fuzz", "--participant", "agent=http://h:1"]) == Exit.USAGE
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.processes
def test_a_broken_promise_is_named_and_is_exit_code_3(tmp_path):
    (tmp_path / "broken.py").write_text(
        "from pathlib import Path\n"
        "from tests.conformance.broken_calls import RetiresInsideACheckpoint\n"
        f"app = RetiresInsideACheckpoint(Path({str(tmp_path)!r}))\n"
    )
    environ = os.environ | {"PYTHONPATH": str(REPOSITORY), "TRIOCOLLECT_CONTROL_TOKEN": "s3cret"}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serve = [sys.executable, "-m", "uvicorn", "broken:app", "--fd", str(listening.fileno())]
        with (tmp_path / "log").open("wb") as log:
            server = subprocess.Popen(
                serve, cwd=tmp_path, env=environ, pass_fds=[listening.fileno()], stdout=log, stderr=log
            )
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            command = [sys.executable, "-m", "triocollect", "fuzz", "--participant", f"resources={url}"]
            command += ["--restart", "sh -c 'echo no such unit >&2; exit 5'"]
            ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        finally:
            server.kill()
            server.wait()
    assert ended.returncode == Exit.INCOMPLETE, ended.stderr
    broken = [line for line in ended.stdout.splitlines() if line.startswith("BROKEN")]
    assert broken == [
        "BROKEN  18 between prepare and resume nothing is retired and nothing forgotten: invalid_phase"
    ]
    assert "expected: 409 invalid_phase" in ended.stdout
    assert "exit 5' ended with 5: no such unit" in " ".join(ended.stdout.split())
    assert "its checkpoint directory has folders conformance-" in ended.stdout
