"""What is done about bytes behind the last newline, before anything is appended."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triocollect.durable import AppendFile
from triocollect.records.tail import mend_tail, read_tail

RECORD = msgspec.json.encode({"reward": 1.0, "text": 'a "quoted" é', "_ng_task_index": 3})


def mend(path, torn):
    file = AppendFile(path)
    try:
        return mend_tail(file, torn)
    finally:
        file.close()


@given(st.integers(1, len(RECORD) - 1))
def test_a_torn_record_is_cut_off_and_kept_aside(tmp_path_factory, length):
    folder = tmp_path_factory.mktemp("tail")
    path, torn = folder / "out.jsonl", folder / "out_torn.jsonl"
    path.write_bytes(RECORD + b"\n" + RECORD[:length])
    assert f"({length} bytes)" in mend(path, torn)
    assert path.read_bytes() == RECORD + b"\n"
    assert torn.read_bytes() == RECORD[:length] + b"\n"
    assert mend(path, torn) is None


def test_a_whole_record_gets_its_newline(tmp_path):
    path, torn = tmp_path / "out.jsonl", tmp_path / "torn.jsonl"
    path.write_bytes(RECORD + b"\n" + RECORD)
    assert "no newline" in mend(path, torn)
    assert path.read_bytes() == RECORD + b"\n" + RECORD + b"\n"
    assert not torn.exists()


@pytest.mark.parametrize("tail", [b"\0" * 64, RECORD[:9] + b"\0" * 20, b"[1,2]", b"17", b"\xff\xfe"])
def test_anything_else_is_cut_off(tmp_path, tail):
    path, torn = tmp_path / "out.jsonl", tmp_path / "torn.jsonl"
    path.write_bytes(RECORD + b"\n" + tail)
    assert mend(path, torn) is not None
    assert path.read_bytes() == RECORD + b"\n"
    assert torn.read_bytes() == tail + b"\n"


def test_a_line_that_ends_in_a_newline_is_never_torn(tmp_path):
    # msgspec says "Input data was truncated" of a lone surrogate: the same words as for half a record.
    path = tmp_path / "out.jsonl"
    path.write_bytes(b'{"text":"\\ud800"}\n')
    assert mend(path, tmp_path / "torn.jsonl") is None
    assert path.read_bytes() == b'{"text":"\\ud800"}\n'


def test_a_tail_longer_than_a_read_is_found_whole(tmp_path):
    path = tmp_path / "out.jsonl"
    tail = b'{"a":"' + b"x" * (3 << 20)
    path.write_bytes(RECORD + b"\n" + tail)
    assert read_tail(path) == tail
    path.write_bytes(tail)
    assert read_tail(path) == tail
