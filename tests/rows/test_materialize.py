"""The materialised file: when it shows, its order, its digest, and reading it again."""

import hashlib
import tracemalloc
from pathlib import Path

import pytest

from tests.rows.lines import A_ROW, a_row, materialize
from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.errors import ConfigError, DamageError, InputError
from triocollect.protocol.ids import RowKey
from triocollect.rows import names
from triocollect.rows.materialize import draft_rows, read_rows


def test_nothing_shows_until_the_draft_is_committed(tmp_path: Path) -> None:
    source, destination = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(A_ROW)
    destination.write_bytes(b"old")
    draft, _ = draft_rows(InputConfig(path=source), RoutingConfig(), destination, agent_of_source=None)
    assert destination.read_bytes() == b"old"
    draft.discard()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize("interleave", [False, True])
def test_count_and_digest_are_those_of_the_file(interleave: bool, tmp_path: Path) -> None:  # noqa: FBT001
    data = b"\n".join(a_row(n=str(n), text=f'"{"x" * 2000}"') for n in range(300))
    lines, materialized = materialize(tmp_path, data, num_repeats=3, interleave_repeats=interleave)
    assert materialized.rows == len(lines) == 900
    assert materialized.sha256 == hashlib.sha256((tmp_path / "out.jsonl").read_bytes()).hexdigest()


def test_interleaving_is_a_stable_sort_by_round(tmp_path: Path) -> None:
    data = b"\n".join(a_row(n=str(n % 150), text=f'"{"x" * 2000}"') for n in range(200))
    in_order, _ = materialize(tmp_path, data, num_repeats=3)
    interleaved, _ = materialize(tmp_path, data, num_repeats=3, interleave_repeats=True)
    assert interleaved == sorted(in_order, key=lambda line: int(line.rpartition(b":")[2].rstrip(b"}")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.jsonl", "out.jsonl"]


def test_a_refused_file_leaves_nothing_behind_when_interleaving(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        materialize(tmp_path, A_ROW + b"\n{", interleave_repeats=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.jsonl"]


def test_the_inputs_digest_does_not_depend_on_what_is_taken_from_it(tmp_path: Path) -> None:
    data = A_ROW + b"\n" + a_row(n="1") + b"\n"
    whole = materialize(tmp_path, data)[1].input_sha256
    assert materialize(tmp_path, data, limit=1)[1].input_sha256 == whole
    assert materialize(tmp_path, b"\n" + data[:-1], num_repeats=2)[1].input_sha256 == whole
    assert materialize(tmp_path, data + A_ROW)[1].input_sha256 != whole
    assert materialize(tmp_path, a_row(n="1") + b"\n" + A_ROW)[1].input_sha256 != whole


def test_rows_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    lines, _ = materialize(tmp_path, A_ROW + b"\n" + a_row(_ng_rollout_id='"x"'), num_repeats=1)
    rows = list(read_rows(tmp_path / "out.jsonl"))
    assert [row.line for row in rows] == lines
    assert [row.key for row in rows] == [RowKey(0, 0), RowKey(1, 0)]
    assert [row.rollout_id for row in rows] == ["0-0", "x"]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (b'{"_ng_task', "cut short"),
        (b"\0\0\n", "not a materialised row"),
        (b"{}\n", "not a materialised row"),
    ],
)
def test_a_damaged_materialised_file_is_refused_naming_the_place(
    damage: bytes, told: str, tmp_path: Path
) -> None:
    materialize(tmp_path, A_ROW)
    path = tmp_path / "out.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + damage)
    rows = read_rows(path)
    assert next(rows).key == RowKey(0, 0)
    with pytest.raises(DamageError, match=rf"out\.jsonl, line 2 \(byte {len(whole)}\): {told}"):
        next(rows)


def test_a_missing_materialised_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DamageError, match=r"nothing\.jsonl"):
        list(read_rows(tmp_path / "nothing.jsonl"))


def test_memory_does_not_follow_the_rows(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        data = b"\n".join(a_row(n=str(n), text=f'"{"x" * 2000}"') for n in range(rows))
        (tmp_path / "input.jsonl").write_bytes(data)
        settings = InputConfig(path=tmp_path / "input.jsonl")
        del data
        tracemalloc.start()
        draft, _ = draft_rows(settings, RoutingConfig(), tmp_path / "out", agent_of_source=None)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        draft.discard()
        return size

    assert peak(4000) - peak(1000) < 3000 * 250  # a digest and some numbers; a row has 2 kB


def test_a_prompt_makes_the_input_and_keeps_the_other_parameters(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("system: 'You are {{kind}}'\nuser: 'Q: {question} {n}'\n")
    row = a_row(question='"why?"', n="1e22").replace(b'"input":"q"', b'"tools":[],"input":""')
    lines, _ = materialize(tmp_path, row, prompt_config=tmp_path / "p.yaml")
    assert lines[0].startswith(
        b'{"responses_create_params":{"tools":[],"input":[{"role":"system","content":"You are {kind}"},'
        b'{"role":"user","content":"Q: why? 1e+22"}]},'
    )


def test_a_prompt_alone_makes_the_parameters(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("user: '{q}'\n")
    lines, _ = materialize(tmp_path, b'{"q":"x","agent_ref":{"name":"a"}}', prompt_config=tmp_path / "p.yaml")
    (line,) = lines
    assert line == (
        b'{"q":"x","agent_ref":{"name":"a"},"responses_create_params":{"input":[{"role":"user","content":"x"}]},'
        b'"_ng_task_index":0,"_ng_rollout_index":0}'
    )


@pytest.mark.parametrize("text", ["", "system: s", "user: 1", "user: [", "user: u\nsystem: 2", "- user"])
def test_a_prompt_file_of_the_wrong_shape_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"prompt_config: .*p\.yaml"):
        materialize(tmp_path, A_ROW, prompt_config=tmp_path / "p.yaml")


def test_a_prompt_that_no_row_can_fill_is_refused_naming_the_line(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("user: '{q.x[0]}'\n")
    with pytest.raises(InputError, match=r"line 1 .*the prompt cannot be filled"):
        materialize(tmp_path, b'{"q":"x","agent_ref":{"name":"a"}}', prompt_config=tmp_path / "p.yaml")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "holds no skills"),
        ({"one/other.md": ""}, "has no SKILL.md"),
        ({"one/SKILL.md": "name: x"}, "must begin with YAML front matter"),
        ({"one/SKILL.md": "---\nname: x\n"}, "must begin with YAML front matter"),
        ({"one/SKILL.md": "---\ndescription: x\n---\n"}, "has no `name`"),
        ({"one/SKILL.md": "---\nname: [\n---\n"}, "is not YAML"),
        ({"one/SKILL.md": "---\n- x\n---\n"}, "must be a mapping"),
        ({"one/SKILL.md": "---\nname: x\ndescription: 1\n---\n"}, "`description` must be a text"),
    ],
)
def test_skills_of_the_wrong_shape_are_refused(files: dict[str, str], problem: str, tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    for name, text in files.items():
        (tmp_path / "skills" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "skills" / name).write_text(text)
    with pytest.raises(ConfigError, match=f"skills.path: .*{problem}"):
        materialize(tmp_path, A_ROW, skills_path=tmp_path / "skills")


def test_files_beside_the_output_are_called_as_gym_calls_them() -> None:
    for output in (Path("r/rollouts.jsonl"), Path("r/rollouts.ndjson"), Path("r/rollouts")):
        assert names.failures_path(output) == Path("r/rollouts_failures.jsonl")
        assert names.materialized_path(output) == Path("r/rollouts_materialized_inputs.jsonl")
        assert names.aggregate_path(output) == Path("r/rollouts_aggregate_metrics.json")
        assert names.run_path(output) == Path("r/rollouts_run.json")
        assert names.torn_path(output) == Path("r/rollouts_torn.jsonl")
    assert names.failures_path(Path("a.b.jsonl")) == Path("a.b_failures.jsonl")
