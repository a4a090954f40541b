"""What comes to a real store over the wire, from a run and its servers; and stores that are down or slow."""

import base64
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.processes.commands import triocollect, until
from triocollect.deployment import datasets

pytestmark = pytest.mark.processes

PATIENCE_S = 300.0  # the machine may be busy
RECEIVER = Path(__file__).with_name("receiver.py")
OF_ROWS = ("row", "attempt")


@contextmanager
def receiver(folder, *flags):
    """A store; its address, and the file that it writes down what comes in."""
    told = folder / "told.jsonl"
    command = [sys.executable, str(RECEIVER), str(told), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}", told
        finally:
            process.kill()


class Run:
    """One collector with its embedded servers, and the store that it tells."""

    def __init__(self, folder, endpoint, *flags, rows=3, tokens_per_s=None, **variables):
        self.folder = folder
        files = ["-i", datasets.path("counter"), "-o", folder / "out.jsonl", "--limit", rows]
        directory = ["--checkpoint-dir", folder / "ckpt"]
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables}
        environment["TRIOCOLLECT_EFFECTS_DIR"] = str(folder / "accounts")
        if tokens_per_s is not None:
            environment["TRIOCOLLECT_TOKENS_PER_S"] = str(tokens_per_s)
        command = [sys.executable, "-m", "triocollect", "run", *files, *directory, "--telemetry", *flags]
        self.process = subprocess.Popen(
            list(map(str, command)),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self):
        """Its exit code and its words."""
        try:
            words, _ = self.process.communicate(timeout=PATIENCE_S)
        finally:
            self.process.kill()
        assert "Traceback" not in words
        return self.process.returncode, words


class Spans:
    """The spans of a file that a store wrote."""

    def __init__(self, told):
        requests = [json.loads(line) for line in told.read_text().splitlines()]
        self.headers = [request["headers"] for request in requests]
        self.metrics = {
            metric["name"]
            for request in requests
            for resource in request["body"].get("resourceMetrics", [])
            for scope in resource["scopeMetrics"]
            for metric in scope["metrics"]
        }
        self.all = [
            {**span, "service": service_of(resource)}
            for request in requests
            for resource in request["body"].get("resourceSpans", [])
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]
        self.by_id = {span["spanId"]: span for span in self.all}

    def named(self, *names):
        return [span for span in self.all if span["name"] in names]

    def above(self, span):
        """The names of those that a span is below, from its parent to the top."""
        names = []
        while (parent := span.get("parentSpanId")) is not None:
            span = self.by_id[parent]
            names.append(span["name"])
        return names


def service_of(resource):
    [name] = [one["value"] for one in resource["resource"]["attributes"] if one["key"] == "service.name"]
    return name["stringValue"]


def about(span):
    return {
        one["key"].removeprefix("triocollect."): next(iter(one["value"].values()))
        for one in span["attributes"]
    }


def test_a_rollout_is_one_trace_from_the_collector_to_the_inference_worker(tmp_path):
    with receiver(tmp_path) as (endpoint, told):
        headers = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret", "OTEL_BSP_SCHEDULE_DELAY": "100"}
        code, words = Run(tmp_path, endpoint, **headers).ended()
    assert code == 0, words
    assert "secret" not in words
    spans = Spans(told)
    assert {each["x-key"] for each in spans.headers} == {"secret"}
    assert "triocollect.rows.sent" in spans.metrics
    calls = [span for span in spans.all if span["service"] == "triocollect.inference"]
    below = ["POST /ng-rollout/{key}/v1/responses"] * 2 + ["POST /run", "attempt", "row"]
    assert calls
    assert all(spans.above(call) == below for call in calls)
    services = {"", ".environment", ".agent", ".model", ".resources", ".inference"}
    for row in spans.named("row"):
        of_trace = [span for span in spans.all if span["traceId"] == row["traceId"]]
        assert {f"triocollect{each}" for each in services} == {span["service"] for span in of_trace}
    assert len({row["traceId"] for row in spans.named("row")}) == 3


def test_a_row_that_is_cut_and_continued_is_one_trace_over_both_runs_with_a_link(tmp_path):
    with receiver(tmp_path) as (endpoint, told):
        log = ("--log-json", tmp_path / "log.jsonl")
        first = Run(tmp_path, endpoint, *log, tokens_per_s=15, OTEL_BSP_SCHEDULE_DELAY="100")
        account = tmp_path / "accounts/counter.jsonl"
        assert until(lambda: account.exists() and account.read_text().count("\n") > 3, PATIENCE_S)
        first.process.send_signal(signal.SIGTERM)
        code, words = first.ended()
        assert code == 75, words
        code, words = Run(tmp_path, endpoint).ended()
        assert code == 0, words
        assert "Cut and continued: " in words
    spans = Spans(told)
    linked = [span for span in spans.named("attempt") if span.get("links")]
    assert linked
    for later in linked:
        earlier = spans.by_id[later["links"][0]["spanId"]]
        assert earlier["traceId"] == later["traceId"] == later["links"][0]["traceId"]
        assert (about(earlier)["attempt"], about(earlier)["outcome"]) == ("0", "cut")
        assert (about(later)["attempt"], about(later)["outcome"]) == ("1", "succeeded")
    runs = spans.named("run")
    assert len(runs) == 2
    assert runs[0]["traceId"] == runs[1]["traceId"]
    assert {spans.above(span)[-1] for span in spans.named("checkpoint", "restore")} == {"run"}
    commits = {tuple(spans.above(span)[:3]) for span in spans.named("POST /checkpoint/v1/commit")}
    assert commits == {("control.commit", "checkpoint.commit", "checkpoint")}
    restores = {span["service"] for span in spans.named("POST /checkpoint/v1/restore")}
    assert {"triocollect.environment", "triocollect.model"} <= restores
    require_whose(tmp_path / "log.jsonl")
    ids = [base64.b64decode(span["spanId"]) for span in spans.all]
    assert len(ids) == len(set(ids))


def require_whose(log):
    """Every line says whose it is, also in the servers' part of the log."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    whose = {"run", "epoch", "operation", "rollout_id", "attempt"}
    assert all(line.keys() == whose | {"time", "level", "service", "event", "message"} for line in lines)
    services = {"collector", "environment", "agent", "policy_model", "counter", "inference"}
    assert {line["service"] for line in lines} == services
    commits = [line for line in lines if line["message"].startswith("POST /checkpoint/v1/commit: 200")]
    assert {(line["epoch"], line["operation"]) for line in commits} == {(1, 1)}
    [run] = {line["run"] for line in commits}
    for_all = ("/checkpoint/", "/v1/cuts")
    played = [
        line for line in lines if line["event"] == "served" and not any(map(line["message"].count, for_all))
    ]
    assert all(line["rollout_id"] is not None and line["attempt"] == 0 for line in played)
    assert {line["run"] for line in played} <= {run, None}
    assert all(line["run"] == run for line in lines if line["event"].startswith(("row_", "checkpoint_")))


def test_metrics_are_scraped_while_a_run_goes_on(tmp_path):
    port = free_ports(6)  # the collector's and one of each server
    nowhere = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    where = ("--prometheus", f"127.0.0.1:{port}")
    run = Run(tmp_path, "http://127.0.0.1:9", *where, tokens_per_s=0.1, **nowhere)
    try:
        flying = "triocollect_rows_in_flight 3.0"
        assert until(lambda: run.process.poll() is not None or flying in scraped(port), PATIENCE_S)
        assert run.process.poll() is None, run.ended()
        assert "triocollect_rows_sent_total 3.0" in scraped(port)
        assert "triocollect_rows_queued 0.0" in scraped(port)
        assert "triocollect_leases_expired_total 0.0" in scraped(port + 1), (
            "the environment has the next port"
        )
    finally:
        run.process.kill()
        run.process.communicate()


def test_what_each_of_several_workers_refuses_is_in_the_metrics_of_their_server(tmp_path):
    port = free_ports(1)
    words = ("serve", "model", "--workers", 2, "--peer", "inference=http://127.0.0.1:9")
    more = ("--checkpoint-dir", tmp_path / "ckpt", "--prometheus", f"127.0.0.1:{port}")
    token = {**os.environ, "TRIOCOLLECT_CONTROL_TOKEN": "nobody guesses it"}
    with triocollect(*words, *more, env=token, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().split()[-1]
            for _ in range(16):  # connections, of which the kernel gives some to each
                with pytest.raises(urllib.error.HTTPError, match="400"):
                    urllib.request.urlopen(f"{url}/v1/responses", b"{}", timeout=PATIENCE_S)
            told = re.compile(r'triocollect_refusals_total\{code="rollout_id_required"[^}]*\} 16\.0')
            assert until(lambda: told.search(scraped(port)), PATIENCE_S), scraped(port)
        finally:
            server.terminate()


def free_ports(count):
    """The first of so many in a row, outside of those that the kernel gives to whoever asks for any."""
    while True:
        first = random.randrange(20_000, 32_000)
        with ExitStack() as taken, suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


def scraped(port):
    """A page of metrics, without the labels that all have."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return re.sub(r'\{otel_scope_name="triocollect"[^}]*\}', "", answer.read().decode())
    except OSError:
        return ""


@pytest.mark.parametrize(
    "flags", [("--status", "500"), ("--status", "503"), ("--status", "308"), ("--after", "600")]
)
def test_a_store_that_answers_badly_or_not_at_all_fails_nothing_and_is_told_of_once(tmp_path, flags):
    with receiver(tmp_path, *flags) as (endpoint, _):
        code, words = Run(tmp_path, endpoint, "--progress", "none").ended()
    assert code == 0, words
    assert "Rows: 3 expected = 3 succeeded" in words
    assert words.count("telemetry: ") == 1


def test_a_store_that_is_down_fails_nothing_also_where_the_run_is_told_to_stop(tmp_path):
    run = Run(tmp_path, "http://127.0.0.1:9", "--grace", "20", "--progress", "none", tokens_per_s=5)
    account = tmp_path / "accounts/counter.jsonl"
    assert until(lambda: account.exists() and account.read_text().count("\n") >= 3, PATIENCE_S)
    told_at = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    code, words = run.ended()
    assert code == 75, words
    assert time.monotonic() - told_at < 60, "its grace is 20 s"
    assert words.count("telemetry: ") == 1
    assert "nobody takes it at http://127.0.0.1:9 (connection refused); rows go on" in words
    assert "rows in flight go on from where they were cut" in words
