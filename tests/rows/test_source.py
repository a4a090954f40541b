"""Input files as people have them: marks, blank lines, carriage returns, gzip, damage."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rows.lines import A_ROW, a_row, materialize
from triocollect.errors import InputError
from triocollect.rows import source
from triocollect.rows.source import Source, locate

BOM = b"\xef\xbb\xbf"


def indices(lines: list[bytes]) -> list[bytes]:
    return [line.partition(b'"_ng_task_index":')[2].partition(b",")[0] for line in lines]


def test_a_byte_order_mark_at_the_start_is_skipped_and_said(tmp_path: Path) -> None:
    plain, _ = materialize(tmp_path, A_ROW + b"\n" + a_row(x="1") + b"\n")
    marked, materialized = materialize(tmp_path, BOM + A_ROW + b"\n" + a_row(x="1") + b"\n")
    assert marked == plain
    assert "byte order mark" in materialized.notes[-1]


def test_a_byte_order_mark_inside_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2 \(byte 67\): a byte order mark"):
        materialize(tmp_path, A_ROW + b"\n" + BOM + A_ROW + b"\n")


def test_a_byte_order_mark_within_a_text_is_text(tmp_path: Path) -> None:
    lines, _ = materialize(tmp_path, a_row(x='"\ufeff"') + b"\n")
    assert "\ufeff".encode() in lines[0]


def test_blank_lines_use_up_no_index(tmp_path: Path) -> None:
    rows = [A_ROW, a_row(x="1")]
    plain, _ = materialize(tmp_path, b"\n".join(rows) + b"\n")
    gaps, materialized = materialize(tmp_path, b"\n" + rows[0] + b"\n   \n\r\n\t\n" + rows[1] + b"\n\n\n")
    assert gaps == plain
    assert indices(gaps) == [b"0", b"1"]
    assert "6 blank line(s)" in materialized.notes[-1]


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\r\n", BOM])
def test_a_file_without_rows_has_no_rows(data: bytes, tmp_path: Path) -> None:
    lines, materialized = materialize(tmp_path, data)
    assert (lines, materialized.rows, materialized.routes) == ([], 0, {})


def test_windows_line_endings_change_nothing(tmp_path: Path) -> None:
    rows = [A_ROW, a_row(x="1"), A_ROW]
    unix, of_unix = materialize(tmp_path, b"\n".join(rows) + b"\n")
    windows, of_windows = materialize(tmp_path, b"\r\n".join(rows) + b"\r\n")
    assert windows == unix
    assert of_windows.input_sha256 == of_unix.input_sha256


@pytest.mark.parametrize(("found", "name"), [(b"[]", "a list"), (b"42", "a number"), (b"null", "null")])
def test_a_line_that_is_no_object_is_named(found: bytes, name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"input\.jsonl, line 3 \(byte 68\): .*{name}") as refusal:
        materialize(tmp_path, A_ROW + b"\n\n" + found + b"\n")
    assert (refusal.value.line, refusal.value.offset) == (3, 68)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.jsonl"]


def test_the_physical_line_of_a_malformed_row_is_said(tmp_path: Path) -> None:
    data = (A_ROW + b"\n") * 4 + b'{"id":"e",}\n' + A_ROW + b"\n"
    with pytest.raises(InputError, match=r"line 5 \(byte 268\): malformed JSON at character 11"):
        materialize(tmp_path, data)


def test_half_a_surrogate_pair_is_refused_on_every_start(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match=r"line 1 \(byte 0\): half of a surrogate pair"):
            materialize(tmp_path, a_row(id='"x\\ud800"') + b"\n")


def test_lines_of_any_length_are_read_across_chunks(tmp_path: Path) -> None:
    rows = [a_row(n=str(n), long=f'"{"x" * n * 50_000}"') for n in range(12)]
    lines, _ = materialize(tmp_path, b"\n".join(rows))
    assert [line[: len(row) - 1] for line, row in zip(lines, rows, strict=True)] == [row[:-1] for row in rows]


def test_an_endless_line_is_refused_before_it_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1000)
    with pytest.raises(InputError, match=r"line 2 \(byte 67\): a line of more than 1000 bytes"):
        materialize(tmp_path, A_ROW + b"\n" + b"x" * 1001)


def test_an_endless_line_in_a_gzip_file_has_a_limit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_UNPACKED_LINE_BYTES", 1000)
    with pytest.raises(InputError, match=r"line 2 \(byte \d+\): a line of more than 1000 bytes"):
        materialize(tmp_path, gzip.compress(A_ROW + b"\n" + a_row(x="x" * 2000) + b"\n"))


def test_a_line_for_which_there_is_no_memory_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(b" " * (16 << 20), 1) * 20)
    program = f"{sys.executable} -m triocollect materialize -i rows.jsonl.gz -o o.jsonl"
    ended = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -v 400000; {program}"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    assert "line 1 (byte 0): a line for which there is not enough memory" in ended.stderr


@pytest.mark.parametrize("members", [1, 2])
def test_gzip_is_read_through_all_members(members: int, tmp_path: Path) -> None:
    rows = [a_row(n=str(n)) + b"\n" for n in range(6)]
    plain, of_plain = materialize(tmp_path, b"".join(rows))
    share = len(rows) // members
    packed = b"".join(gzip.compress(b"".join(rows[n * share : (n + 1) * share])) for n in range(members))
    unpacked, of_packed = materialize(tmp_path, packed)
    assert unpacked == plain
    assert of_packed.input_sha256 == of_plain.input_sha256


def test_damaged_gzip_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(50).hex().encode().join([A_ROW[:-1] + b',"x":"', b'"}\n']) * 20)
    bad_sum = packed[:-8] + bytes(4) + packed[-4:]
    for damaged in (
        packed[: len(packed) // 2],
        packed[:-3],
        bad_sum,
        packed[:20] + b"\xff" * 9 + packed[29:],
    ):
        with pytest.raises(InputError, match=r"input\.jsonl: the gzip file is damaged or cut short"):
            materialize(tmp_path, damaged)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.jsonl"]


def test_damage_behind_the_limit_is_found_too(tmp_path: Path) -> None:
    packed = gzip.compress((A_ROW + b"\n") * 10_000)
    with pytest.raises(InputError, match="gzip"):
        materialize(tmp_path, packed[:-8], limit=1)


def test_a_file_that_cannot_be_opened_is_named_with_what_to_do(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "nowhere.jsonl", "no such file; check --input"),
        (tmp_path, "a directory"),
    ):
        with pytest.raises(InputError, match=reason) as refusal:
            list(Source(path).lines())
        assert str(path) in str(refusal.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    path.touch(mode=0)
    with pytest.raises(InputError, match="Permission denied"):
        list(Source(path).lines())


def test_relative_paths_are_looked_for_in_gyms_roots_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, first, second = (tmp_path / name for name in ("here", "first", "second"))
    for folder in (here, first, second):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", f"{first}:{second}")
    for folder in (here, second):
        (folder / "data.jsonl").touch()
    (here / "mine.jsonl").touch()
    assert locate(Path("data.jsonl")) == second / "data.jsonl"
    assert locate(Path("mine.jsonl")).resolve() == here / "mine.jsonl"
    assert locate(Path("nowhere.jsonl")) == first / "nowhere.jsonl"
    monkeypatch.delenv("NEMO_GYM_EXTRA_ROOTS")
    assert locate(Path("data.jsonl")).resolve() == here / "data.jsonl"
