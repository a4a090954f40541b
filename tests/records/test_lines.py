"""Whole lines of a file that a crash left in any state."""

import resource

from hypothesis import given
from hypothesis import strategies as st

from triocollect.records.lines import Lines

pieces = st.lists(st.sampled_from([b"{}", b"\n", b"\0\0\0", b"\xff", b"x" * 70, b"\r\n", b" "]), max_size=30)


def read(path, **settings):
    lines = Lines(path, **settings)
    return [(line.number, line.offset, line.data and bytes(line.data)) for line in lines], lines


@given(pieces)
def test_every_line_comes_with_its_number_and_place(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("lines") / "out.jsonl"
    content = b"".join(pieces)
    path.write_bytes(content)
    found, lines = read(path)
    expected, offset = [], 0
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        expected.append((number, offset, line or None))
        offset += len(line) + 1
    assert [(n, o, d or None) for n, o, d in found] == expected
    assert lines.whole == offset
    assert lines.size == len(content)


def test_a_missing_file_has_no_lines(tmp_path):
    assert read(tmp_path / "none.jsonl")[0] == []


def test_a_line_longer_than_the_buffer_is_whole(tmp_path):
    path = tmp_path / "out.jsonl"
    long = b"a" * (3 << 20)
    path.write_bytes(b"1\n" + long + b"\n2\n")
    assert read(path)[0] == [(1, 0, b"1"), (2, 2, long), (3, 3 + len(long), b"2")]


def test_a_line_without_end_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"1\n" + b"a" * (5 << 20) + b"\n2\n")
    found, _ = read(path, max_line_bytes=1 << 20)
    assert found == [(1, 0, b"1"), (2, 2, None), (3, 3 + (5 << 20), b"2")]


def test_a_hole_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "out.jsonl"
    with path.open("wb") as file:
        file.write(b"1\n")
        file.truncate(400 << 20)
        file.seek(0, 2)
        file.write(b"\n2\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found, _ = read(path)
    assert [(number, data) for number, _, data in found] == [(1, b"1"), (2, None), (3, b"2")]
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < 64 << 20
