"""What only a real process shows: its start, its signals, its pipes."""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = [sys.executable, "-m", "triocollect"]


def call(*tokens, **how):
    return subprocess.run([*PROGRAM, *tokens], capture_output=True, text=True, timeout=60, check=False, **how)


def test_the_version_is_told_without_loading_anything():
    program = "import sys; sys.argv[1:] = ['--version']; import triocollect.__main__ as m; m.main(); "
    heavy = {"trio", "httpx", "attrs", "cattrs", "cyclopts", "rich", "msgspec"}
    loaded = f"print(sorted({heavy} & set(sys.modules)))"
    told = subprocess.run(
        [sys.executable, "-c", program + loaded], capture_output=True, text=True, check=True
    )
    version, modules = told.stdout.splitlines()
    assert version.startswith("triocollect ")
    assert modules == "[]"


def test_a_usage_error_ends_with_two_and_says_so_on_stderr(tmp_path):
    ended = call("run", "--no-such-flag", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--no-such-flag" in ended.stderr


def test_a_reader_that_goes_away_is_no_fault(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"responses_create_params":{},"agent_ref":{"name":"a"}}\n')
    tokens = ["run", "-i", "rows.jsonl", "-o", "o.jsonl", "--environment-url", "http://h:1", "--dry-run"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        ended = subprocess.run(
            [*PROGRAM, *tokens], cwd=tmp_path, stdout=nobody, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_closed_streams_are_no_fault(tmp_path):
    command = f"{sys.executable} -m triocollect status nowhere.jsonl >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=False).returncode == 2


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGUSR1, 0)]
)
def test_a_signal_before_the_first_row_ends_the_program_as_promised(tmp_path, number, code):
    """A named pipe as the input holds the program where it opens that."""
    os.mkfifo(tmp_path / "rows.jsonl")
    tokens = ["-i", "rows.jsonl", "-o", "o.jsonl", "--environment-url", "http://h:1", "--dry-run"]
    with subprocess.Popen(
        [*PROGRAM, "run", *tokens],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        with (tmp_path / "rows.jsonl").open("w") as rows:  # opens when the program has opened its end
            program.send_signal(number)
            if code == 0:
                rows.write('{"responses_create_params":{},"agent_ref":{"name":"a"}}\n')
            else:
                program.wait(timeout=30)
        out, err = program.communicate(timeout=30)
    assert program.returncode == code
    assert "Traceback" not in err
    assert ("interrupted: " in err) == (number == signal.SIGINT)
    assert ("Would send 1 row" in out) == (code == 0)


@pytest.mark.processes
@pytest.mark.parametrize("style", ["plain", "json", "rich", "auto"])
@pytest.mark.parametrize("streams", ["2>&-", "<&- >&- 2>&-", "2>/dev/full", "2>&1 >report | true"])
def test_a_run_that_nobody_watches_still_collects(tmp_path, style, streams):
    (tmp_path / "rows.jsonl").write_text(
        '{"responses_create_params":{},"agent_ref":{"name":"arithmetic_agent"}}\n'
    )
    tokens = "run -i rows.jsonl -o o.jsonl --max-attempts 1 --connect-timeout 1 --environment-url http://127.0.0.1:1"
    command = f"{sys.executable} -m triocollect {tokens} --progress {style} {streams}; echo $? > code"
    subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=False, timeout=60)
    assert len((tmp_path / "o_failures.jsonl").read_text().splitlines()) == 1
    if "|" in streams:
        assert "Finished rollout collection" in (tmp_path / "report").read_text()
    else:
        assert (tmp_path / "code").read_text() == "3\n"


@pytest.mark.parametrize("tokens", ["status {}", "status {} --json", "aggregate {}"])
def test_a_result_that_the_disk_does_not_take_is_an_error_in_words(tmp_path, tokens):
    (tmp_path / "o.jsonl").write_text("")
    command = f"{sys.executable} -m triocollect {tokens.format('o.jsonl')} > /dev/full"
    ended = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == "triocollect: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize("streams", [">&-", "> /dev/full"])
def test_nobody_reads_the_version(tmp_path, streams):
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m triocollect --version {streams}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr
