"""Where nobody asks for telemetry nothing of it is loaded, and what is asked for and cannot be is said."""

import json
import re
import socket
import subprocess
import sys

import pytest

from triocollect.config.settings import TelemetryConfig
from triocollect.errors import UsageError
from triocollect.telemetry.recorder import start

LOADED = "import sys; {}; sys.exit(any('opentelemetry' in name for name in sys.modules))"
RUN = "from triocollect.__main__ import main; main({})"


@pytest.fixture
def files(tmp_path):
    row = {"responses_create_params": {"input": "x"}, "agent_ref": {"name": "a"}}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    return ["-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl")]


def python(code, *flags):
    return subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )


def words_of(tell=print, **settings):
    with pytest.raises(UsageError) as refusal:
        start(TelemetryConfig(**settings), service="triocollect", instance="collector", tell=tell)
    return str(refusal.value)


def test_a_run_loads_nothing_of_it(files):
    code = RUN.format(["run", *files, "--environment-url", "http://127.0.0.1:9", "--max-attempts", "1"])
    ended = python(LOADED.format(code))
    assert "Rows: 1 expected" in ended.stdout, ended.stderr
    assert ended.returncode == 0


def test_a_server_loads_nothing_of_it():
    made = "from triocollect.servers.serve import make_app; make_app('resources', {})"
    settings = json.dumps({"name": "counter", "source": "counter"}).encode()
    ended = python(LOADED.format(made.format(settings)))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_library_loads_nothing_at_all_until_it_is_used():
    code = "import sys, triocollect; sys.exit('trio' in sys.modules or 'opentelemetry' in sys.modules)"
    assert python(code).returncode == 0


def test_without_the_extra_it_says_which_command_helps(files):
    hidden = "import sys; sys.modules['opentelemetry'] = sys.modules['opentelemetry.sdk'] = None; "
    code = "from triocollect.__main__ import main; sys.exit(main({}))"
    for flags in (["--telemetry"], ["--prometheus", "127.0.0.1:9464"]):
        where = ["--environment-url", "http://127.0.0.1:9"]
        ended = python(hidden + code.format(["run", *files, *where, *flags]))
        assert ended.returncode == 2
        assert re.fullmatch(
            rf"triocollect: {flags[0]} needs .*: pip install 'triocollect\[telemetry\]'\n", ended.stderr
        )
        assert "Traceback" not in ended.stderr


def test_a_log_needs_no_extra(tmp_path, files):
    hidden = "import sys; sys.modules['opentelemetry'] = sys.modules['opentelemetry.sdk'] = None; "
    log = tmp_path / "logs/run.jsonl"
    where = ["--environment-url", "http://127.0.0.1:9", "--max-attempts", "1", "--log-json", str(log)]
    assert python(hidden + RUN.format(["run", *files, *where])).returncode == 0
    assert log.stat().st_mode & 0o777 == 0o600
    assert "row_failed" in log.read_text()


def test_a_protocol_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    assert words_of(export="otlp") == (
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc: telemetry is sent by http/protobuf only"
    )


def test_a_variable_that_the_library_cannot_use_is_refused_in_words(monkeypatch):
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "-1")
    assert words_of(export="otlp").startswith("telemetry: an OTEL_* variable is wrong: ")


@pytest.mark.parametrize("said", ["soon", "0", "-5", "nan", "inf"])
def test_a_delay_that_nobody_can_wait_for_is_refused(monkeypatch, said):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", said)
    assert words_of(export="otlp") == f"OTEL_BSP_SCHEDULE_DELAY={said}: milliseconds above 0 are needed"


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert words_of(prometheus=address).startswith(f"--prometheus {address}: cannot listen there: ")


def test_a_log_that_cannot_be_opened_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "file/log.jsonl: cannot be opened: " in words_of(log_json=tmp_path / "file/log.jsonl")


def test_the_switch_of_opentelemetry_itself_turns_it_off(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    settings = TelemetryConfig(export="otlp", prometheus="127.0.0.1:1")
    recorder = start(settings, service="triocollect", instance="collector", tell=print)
    assert recorder.exporting is None
