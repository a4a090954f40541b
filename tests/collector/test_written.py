"""What stands in the files whatever happens to disk or run: whole lines, before anybody hears of them."""

import errno
import os

import pytest
import trio

from tests.collector.runs import RunFolder, rewarded
from triocollect import errors, events
from triocollect.records.output import scan_output

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def test_a_sync_that_takes_long_is_waited_for_when_the_run_is_cut(tmp_path, monkeypatch):
    place, syncing = RunFolder(tmp_path), []

    async def slow(work):
        syncing.append("begun")
        with trio.CancelScope(shield=True):
            await trio.sleep(50)
            work()
        syncing.append("ended")

    async def dispatch(row, attempt):
        await trio.sleep(0 if row["prompt"] == "p0" else 10)
        return {"reward": 1.0}

    with trio.move_on_after(5):
        await place.collect(dispatch, blocking=slow)
    assert syncing == ["begun", "ended"]


async def test_nan_is_a_failure_and_never_null(tmp_path):
    async def dispatch(row, attempt):
        return b'{"reward":NaN}' if row["prompt"] == "p0" else b'{"reward":1}'

    place = RunFolder(tmp_path, rows=2)
    await place.collect(dispatch)
    assert "NaN" in place.sidecar()[0]["_ng_failure_message"]
    assert b"null" not in place.output.read_bytes()


async def test_what_a_reply_holds_passes_as_it_came(tmp_path):
    body = b'{"n": 123456789012345678901234567890, "f": 1.0e2,\n "s": "\\u00e9", "reward": 1}'

    async def dispatch(row, attempt):
        return body

    place = RunFolder(tmp_path, rows=1)
    await place.collect(dispatch)
    expected = b'{"n":123456789012345678901234567890,"f":1.0e2,"s":"\\u00e9","reward":1,'
    assert place.output.read_bytes().startswith(expected)
    assert place.output.read_bytes().count(b"\n") == 1


async def test_a_result_is_written_before_it_is_handed_over(tmp_path):
    place, seen = RunFolder(tmp_path, rows=3), []

    async def hand_over(result):
        seen.append(result.key)
        assert list(result.key) in [list(key) for key in place.written()]
        await trio.sleep(10)

    await place.collect(rewarded, hand_over=hand_over)
    assert sorted(seen) == [(0, 0), (1, 0), (2, 0)]


async def test_a_full_disk_ends_the_run_with_one_message_and_whole_lines(tmp_path, monkeypatch):

    place, real = RunFolder(tmp_path, rows=4), os.write

    def full(fd, data):
        if b'"p2"' in data:
            real(fd, data[:17])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    async def in_turn(row, attempt):
        await trio.sleep(int(row["prompt"][1]))
        return {"reward": 1.0, "prompt": row["prompt"]}

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(errors.StorageError, match=r"out\.jsonl: No space left on device"):
        await place.collect(in_turn)
    monkeypatch.setattr(os, "write", real)
    assert place.written() == [(0, 0), (1, 0)]
    assert (await place.collect(rewarded)).succeeded == 4


async def test_after_a_full_disk_no_other_row_is_started(tmp_path, monkeypatch):

    def full(fd, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place, heard, real = RunFolder(tmp_path, rows=4), [], os.write

    async def dispatch(row, attempt):
        monkeypatch.setattr(os, "write", full)
        await trio.sleep(1)
        return {"reward": 1.0}

    with pytest.raises(errors.StorageError):
        await place.collect(dispatch, listener=heard.append, concurrency=1)
    monkeypatch.setattr(os, "write", real)
    assert sum(isinstance(event, events.RowSent) for event in heard) == 1


async def test_a_short_write_is_taken_back_and_written_again(tmp_path, monkeypatch):

    place, real, cut = RunFolder(tmp_path, rows=3), os.write, []

    def short(fd, data):
        if b'"p1"' in data and not cut:
            cut.append(data)
            return real(fd, data[:17])
        return real(fd, data)

    monkeypatch.setattr(os, "write", short)
    await place.collect(rewarded)
    assert place.written() == [(0, 0), (1, 0), (2, 0)]
    assert cut


def move_away(path):
    path.rename(path.with_name("elsewhere"))
    path.touch()


MEDDLING = {
    "removes it": lambda path: path.unlink(),
    "replaces it": move_away,
    "cuts it": lambda path: os.truncate(path, 10),
    "appends to it": lambda path: path.open("a").write('{"half'),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("meddling", MEDDLING)
async def test_a_run_whose_output_somebody_else_touches_does_not_claim_success(tmp_path, meddling):
    place = RunFolder(tmp_path)

    async def dispatch(row, attempt):
        if row["prompt"] == "p2":
            MEDDLING[meddling](place.output)
        return {"reward": 1.0}

    with pytest.raises(errors.StorageError, match=r"out\.jsonl"):
        await place.collect(dispatch, concurrency=1)
    assert (await place.collect(rewarded)).succeeded == 4
    assert sorted(scan_output(place.output).done) == [(n, 0) for n in range(4)]


@pytest.mark.parametrize("name", ["out.jsonl", "out_failures.jsonl", "out_materialized_inputs.jsonl"])
async def test_the_input_is_never_taken_for_a_file_of_the_output(tmp_path, name):
    place = RunFolder(tmp_path)
    before = place.input.read_bytes()
    (tmp_path / name).hardlink_to(place.input)
    with pytest.raises(errors.UsageError, match="is the input file itself"):
        await place.collect(rewarded, output={"resume": "never", "overwrite": True})
    assert place.input.read_bytes() == before
