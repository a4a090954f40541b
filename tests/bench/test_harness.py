"""What a bench must not do: believe a process that failed, or two outputs that differ."""

import http.client
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.bench.collectors import require_same
from tests.bench.data import reply_around_echo, write_rows
from tests.bench.harness import BenchError, Child, Result, measure, medians, started
from tests.bench.serving import Stub, stub


def output(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_outputs_are_the_same_in_any_order_of_rows_and_keys(tmp_path: Path) -> None:
    ours = output(tmp_path / "a", {"x": 1, "y": 2.50}, {"x": 2})
    require_same(ours, output(tmp_path / "b", {"x": 2}, {"y": 2.5, "x": 1}), 2)


@pytest.mark.parametrize("other", [({"x": 1},), ({"x": 1}, {"x": 1}), ({"x": 1}, {"x": 3})])
def test_outputs_differ_by_a_record_missing_twice_or_changed(tmp_path: Path, other: list[object]) -> None:
    ours = output(tmp_path / "a", {"x": 1}, {"x": 2})
    with pytest.raises(BenchError):
        require_same(ours, output(tmp_path / "b", *other), 2)


def test_a_record_written_twice_by_both_is_not_the_same(tmp_path: Path) -> None:
    twice = ({"x": 1}, {"x": 1})
    with pytest.raises(BenchError, match="2 records, 1 different, for 2 rows"):
        require_same(output(tmp_path / "a", *twice), output(tmp_path / "b", *twice), 2)


def test_a_ratio_is_ours_by_the_peers_of_what_both_have() -> None:
    assert Result(1, {"cpu_s": 3.0, "peak_rss_bytes": 1}, {"cpu_s": 2.0}).ratio == {"cpu_s": 1.5}
    assert medians([{"a": 1}, {"a": 9}, {"a": 2}]) == {"a": 2}


@pytest.mark.parametrize("size", [2_000, 20_000])
def test_rows_and_replies_have_the_size_asked_for_and_no_two_rows_are_alike(
    tmp_path: Path, size: int
) -> None:
    write_rows(tmp_path / "rows", 20, size)
    lines = (tmp_path / "rows").read_bytes().splitlines()
    assert len(set(lines)) == 20
    replies = [b"0".join(reply_around_echo(shape, size)) for shape in ("text", "tokens")]
    for text in (*lines, *replies):
        assert isinstance(json.loads(text), dict)
        assert abs(len(text) - size) < size * 0.02


@pytest.mark.processes
def test_a_failed_process_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"ended with 3:\nno such city"):
        measure([sys.executable, "-c", "import sys; print('no such city'); sys.exit(3)"], tmp_path)


@pytest.mark.processes
def test_cpu_and_peak_memory_of_a_killed_process_are_known(tmp_path: Path) -> None:
    hungry = "import signal; held = b'x' * 80_000_000; print('full', flush=True); signal.pause()"
    with started([sys.executable, "-c", hungry], tmp_path / "log") as child:
        while not child.log.read_bytes():
            assert not child.ended(0.001)
        usage = child.kill()
    assert usage.exit_code == -signal.SIGKILL
    assert 80_000_000 < usage.peak_rss_bytes < 160_000_000
    assert 0 < usage.cpu_s < usage.wall_s * 2


@pytest.mark.processes
def test_a_process_does_not_outlive_its_block(tmp_path: Path) -> None:
    with started([sys.executable, "-c", "import signal; signal.pause()"], tmp_path / "log") as child:
        assert not child.ended(0)
    assert child.ended(0)


@pytest.mark.processes
def test_the_stub_puts_the_index_of_the_row_in_its_reply_and_counts_rows(tmp_path: Path) -> None:
    with stub(reply_bytes=2_000) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        for body in ('{"a":"b","_ng_task_index":7,"_ng_rollout_index":0}', '{"_ng_task_index":123}'):
            connection.request("POST", "/run", body)
            reply = json.loads(connection.getresponse().read())
            assert reply["seen_task"] == f"{json.loads(body)['_ng_task_index']:08d}"
        connection.close()
        assert server.stats() == (2, 1)
        with started([sys.executable, "-c", "print('nothing to send')"], tmp_path / "log") as child:
            _ends_before_sending(server, child)


def _ends_before_sending(server: Stub, child: Child) -> None:
    with pytest.raises(BenchError, match=r"ended before it had sent 3 rows:\nnothing to send"):
        server.await_runs(3, child)
