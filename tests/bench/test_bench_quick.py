"""Every bench runs, and says what it found in the shape that is promised. No figure is judged as a time."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300
LINE = ["bench", "case", "n", "rounds", "load", "ours", "peer", "ratio"]

RATES = {"rows_per_s", "cpu_s_per_1000"}
PEAKS = {"rss_growth_bytes", "bytes_per_row", "peak_rss_bytes"}
SET_UP = {"cpu_s_per_1000_off", "cpu_s_per_1000_on"}
LOST = {"undelivered_calls", "uncut_tokens"}
SAME, SPENT = {"identical", "needed_tokens", *LOST}, {"model_calls", "tokens"}
# bench: cases, figures of ours, figures of the peer; ratios are of what both have
PROMISED = {
    "dispatch": (["16", "256", "2048", "4096"], RATES, RATES),
    "memory": (["20000x20k", "20000x200k", "1000000x2k"], PEAKS, set()),
    "resume": (["text", "tokens"], {"mb_per_s", "peak_rss_bytes"}, {"mb_per_s"}),
    "churn": (["trio"], {"succeeded", "of", "fds_max", "fds_allowed"}, set()),
    "startup": (["version", "dry_run", "first_run"], {"cpu_s"}, {"cpu_s"}),
    "checkpoint": (["10", "100", "1000", "1000_generating"], {"pause_s", "bytes"}, {"write_s"}),
    "restore": (["1000"], {"first_run_s"}, set()),
    "telemetry": (["collector", "deployment"], SET_UP, SET_UP),
    "preempt": (["triocollect", "restart_from_input"], SAME | SPENT, SPENT),
}
OTHERS = {"1000_generating": ({"pause_s"}, {"pause_s"})}  # cases that have figures of their own


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.processes
@pytest.mark.parametrize("name", PROMISED)
def test_a_bench_prints_one_json_line_per_case_and_nothing_else(name: str) -> None:
    cases, *promised = PROMISED[name]
    ran = bench(name, "--quick")
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [line["case"] for line in lines] == cases
    for line in lines:
        assert list(line) == LINE
        ours, peer = OTHERS.get(line["case"], promised)
        assert (line["bench"], line["rounds"]) == (name, 1)
        assert (set(line["ours"]), set(line["peer"])) == (ours, peer)
        assert set(line["ratio"]) == (ours & peer or {"pause" for _ in peer})
        assert line["n"] > 0
        assert line["load"] >= 0
        figures = [*line["ours"].values(), *line["peer"].values(), *line["ratio"].values()]
        assert all(math.isfinite(figure) for figure in figures)
        assert all(line["ours"][figure] > 0 for figure in ours - PEAKS - LOST)
        assert all(line["ratio"][figure] > 0 for figure in line["ratio"])
        # Gross errors that no load on the machine can excuse.
        assert line["ours"].get("peak_rss_bytes", 0) < 1_000_000_000
        assert line["ours"].get("succeeded") == line["ours"].get("of")
        if line["case"] == "triocollect":
            assert (
                line["ours"]["identical"] == line["n"]
            )  # calls too, but for cards, which fall anew each time
        assert line["ours"].get("fds_max", 0) <= line["ours"].get("fds_allowed", 0)


@pytest.mark.processes
def test_the_bench_of_workers_has_figures_of_a_run_and_of_a_restore() -> None:
    ran = bench("workers", "--quick")
    assert ran.returncode == 0, ran.stderr
    lines = {line["case"]: line for line in map(json.loads, ran.stdout.splitlines())}
    assert list(lines) == ["1", "2", "4", "4to1", "1to4"]
    assert all(list(line) == LINE for line in lines.values())
    for case, line in lines.items():
        figures = {"first_run_s"} if "to" in case else {"rows_per_s", "pause_s"}
        assert set(line["ours"]) == figures
        assert set(line["peer"]) == set(line["ratio"]) == figures - {"first_run_s"}
        assert all(figure > 0 for figure in (*line["ours"].values(), *line["peer"].values()))


@pytest.mark.processes
def test_the_bench_of_signals_has_figures_of_its_own_in_every_case() -> None:
    ran = bench("signals", "--quick")
    assert ran.returncode == 0, ran.stderr
    lines = {line["case"]: line for line in map(json.loads, ran.stdout.splitlines())}
    assert list(lines) == ["idle", "large_reply", "termstorm", "startup", "startup_ignored"]
    assert all(list(line) == LINE for line in lines.values())
    delays = {"p50_ms", "p99_ms"}
    assert all(set(lines["idle"][side]) == delays for side in ("ours", "peer", "ratio"))
    assert set(lines["large_reply"]["ratio"]) == delays
    assert lines["termstorm"]["ours"] == {"checkpoints": 1}
    assert set(lines["startup"]["ours"]) == {"killed", "of"}
    assert lines["startup_ignored"]["ours"]["killed"] == 0


@pytest.mark.processes
def test_a_case_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    ran = bench("dispatch", "--case", "17")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "16, 256, 2048, 4096" in ran.stderr


@pytest.mark.processes
def test_a_bench_that_is_told_to_stop_leaves_no_process_behind() -> None:
    command = [sys.executable, "-m", "tests.bench", "startup", "--case", "first_run"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.PIPE) as running:
        while len(children := _children(running.pid)) < 2:  # the stub and a collector
            assert running.poll() is None
        running.terminate()
        assert running.wait(DEADLINE_S) == 128 + signal.SIGTERM
        assert running.stdout is not None
        assert running.stdout.read() == b""
    until = time.monotonic() + DEADLINE_S
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < until


def _children(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
