"""Task indices, rollout indices and rollout ids: which rows are one task, and what each is called."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows.lines import A_ROW, a_row, materialize
from triocollect.errors import InputError
from triocollect.protocol.ids import RowKey
from triocollect.rows.numbers import RolloutNumbers, TaskNumbers


def keys(lines: list[bytes]) -> list[tuple[int, int]]:
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in map(json.loads, lines)]


def test_an_equal_last_line_without_a_newline_is_the_same_task(tmp_path: Path) -> None:
    lines, _ = materialize(tmp_path, A_ROW + b"\n" + A_ROW)
    assert keys(lines) == [(0, 0), (0, 1)]


def test_gyms_numbering_counts_the_newline(tmp_path: Path) -> None:
    lines, _ = materialize(tmp_path, A_ROW + b"\n\n" + A_ROW + b"\n" + A_ROW, gym_task_numbering=True)
    assert keys(lines) == [(0, 0), (0, 1), (1, 0)]


def test_a_long_file_keeps_its_numbering_under_repeats(tmp_path: Path) -> None:
    rows = [a_row(n=str(n % 700)) for n in range(2000)]
    lines, _ = materialize(tmp_path, b"\n".join(rows), num_repeats=2)
    seen: Counter[int] = Counter()
    for n, (task, rollout) in enumerate(keys(lines)):
        assert (task, rollout) == ((n // 2) % 700, seen[task])
        seen[task] += 1


def test_tens_of_thousands_of_tasks_keep_their_numbers_when_they_come_again() -> None:
    tasks = TaskNumbers(gym=False)
    for _ in range(2):
        for n in range(30_000):
            assert tasks.index(tasks.digest(b"%d" % n)) == n


@pytest.mark.parametrize("part", [slice(0, 8), slice(8, 16)])
def test_tasks_whose_digests_are_half_equal_stay_apart(part: slice) -> None:
    tasks, same = TaskNumbers(gym=False), bytearray(32)
    for n in range(500):
        same[part] = n.to_bytes(8, "little")
        assert tasks.index(bytes(same)) == n


@given(st.lists(st.integers(0, 6) | st.none(), max_size=30))
def test_preset_and_automatic_indices_that_meet_are_one_task(presets: list[int | None]) -> None:
    tasks, rollouts, counted = TaskNumbers(gym=False), RolloutNumbers(), Counter[int]()
    for line, preset in enumerate(presets):
        task = tasks.index(tasks.digest(b"%d" % line)) if preset is None else preset
        assert rollouts.next(task, line) == counted[task]
        counted[task] += 1
    for task in range(9):
        assert RowKey(task, counted[task]) not in rollouts
        assert all(RowKey(task, rollout) in rollouts for rollout in range(counted[task]))


@pytest.mark.parametrize("value", ["-1", "1.0", '"1"', "true", "null", "9223372036854775808"])
def test_a_preset_task_index_must_be_a_number_to_count_with(value: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2 .*_ng_task_index must be an integer from 0 to"):
        materialize(tmp_path, A_ROW + b"\n" + a_row(_ng_task_index=value))


def test_rollout_ids_that_are_not_unique_are_refused_naming_the_lines(tmp_path: Path) -> None:
    data = b"\n".join(a_row(_ng_rollout_id=f'"{name}"') for name in "abaca")
    with pytest.raises(InputError, match=r"lines 1, 3 and 5 have the same _ng_rollout_id 'a'"):
        materialize(tmp_path, data)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.jsonl"]


@pytest.mark.parametrize("settings", [{"num_repeats": 2}, {"fan_out": {"a": ("b", "c")}}])
def test_a_rollout_id_of_a_row_that_is_multiplied_is_refused(
    settings: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"line 2: _ng_rollout_id 'x' would name several rollouts"):
        materialize(tmp_path, A_ROW + b"\n" + a_row(_ng_rollout_id='"x"'), **settings)


def test_a_rollout_id_that_is_another_rows_automatic_one_is_refused(tmp_path: Path) -> None:
    data = b"\n".join([a_row(_ng_rollout_id='"2-0"'), a_row(n="1"), a_row(n="2")])
    with pytest.raises(InputError, match=r"lines 1 and 3: _ng_rollout_id '2-0'"):
        materialize(tmp_path, data)


def test_rollout_ids_that_look_automatic_are_fine_where_nobody_else_is_called_so(tmp_path: Path) -> None:
    shuffled = [a_row(_ng_rollout_id=f'"{n}-0"') for n in (2, 0, 1)]
    elsewhere = [a_row(_ng_rollout_id=f'"{name}"', n="1") for name in ("9-0", "0-7", "00-0")]
    lines, materialized = materialize(tmp_path, b"\n".join(shuffled + elsewhere))
    assert materialized.rows == len(lines) == 6


@pytest.mark.parametrize("value", ['""', '".hidden"', '"a/b"', '"x-a1"', "7", '"é"'])
def test_a_rollout_id_that_servers_would_refuse_is_refused_naming_the_line(
    value: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"line 1 .*_ng_rollout_id"):
        materialize(tmp_path, a_row(_ng_rollout_id=value))


def test_a_rollout_id_of_null_is_none(tmp_path: Path) -> None:
    lines, _ = materialize(tmp_path, a_row(_ng_rollout_id="null"), num_repeats=2)
    assert keys(lines) == [(0, 0), (0, 1)]
