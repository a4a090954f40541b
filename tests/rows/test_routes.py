"""Where rows go, what is added to them on the way, and everything wrong with them at once."""

import json
from pathlib import Path

import pytest

from tests.rows.lines import A_ROW, a_row, materialize
from triocollect.config.settings import RoutingConfig
from triocollect.errors import ConfigError, InputError
from triocollect.rows.types import Route

BY_SOURCE = b'{"responses_create_params":{},"task_source":"%s"}'
A_TASK = b'{"task_id":{"taskset":"ts","task_id":"t%d"},"task_input":{"x":1}}'
ROUTED = RoutingConfig(environment_server_routes={"ts": "e1"})


def test_an_agent_that_a_source_stands_for_is_named_last(tmp_path: Path) -> None:
    data = BY_SOURCE % b"s" + b"\n" + A_ROW
    lines, materialized = materialize(tmp_path, data, agent_of_source=lambda source: f"agent of {source}")
    assert lines[0].endswith(b'"_ng_rollout_index":0,"agent_ref":{"name":"agent of s"}}')
    assert materialized.routes == {Route(agent="agent of s", source="s"): 1, Route(agent="a"): 1}


def test_every_source_that_stands_for_no_agent_is_told_at_once(tmp_path: Path) -> None:
    def refuse(source: str) -> str:
        raise ConfigError(f"task_source {source!r} is not in the running config")

    data = b"\n".join(BY_SOURCE % source for source in [b"x"] * 25 + [b"y"] + [b"x"])
    with pytest.raises(ConfigError) as refusal:
        materialize(tmp_path, data, agent_of_source=refuse)
    first, second = refusal.value.problems
    assert "lines 1, 2, 3" in first
    assert "and 6 more" in first
    assert "'x' is not in the running config" in first
    assert "line 26 (row 25): task_source 'y'" in second


def test_an_agent_that_a_server_stands_for_is_named_last(tmp_path: Path) -> None:
    legacy = RoutingConfig(mode="legacy", environment_server_name="e9")
    data = b'{"responses_create_params":{}}\n' + A_ROW
    lines, materialized = materialize(tmp_path, data, legacy, agent_of_server={"e9": "bound"}.get)
    assert [list(json.loads(line))[-1] for line in lines] == ["agent_ref", "_ng_rollout_index"]
    assert materialized.routes == {Route("e9", "bound"): 1, Route("e9", "a"): 1}


def test_a_server_that_the_data_names_stays(tmp_path: Path) -> None:
    _, materialized = materialize(tmp_path, a_row(_ng_environment_server='"e5"'))
    assert materialized.routes == {Route("e5", "a"): 1}


def test_tasks_go_by_their_taskset_and_repeat(tmp_path: Path) -> None:
    data = A_TASK % 0 + b"\n" + A_TASK % 1
    lines, materialized = materialize(
        tmp_path, data, ROUTED, num_repeats=2, agent_of_server={"e1": "not for tasks"}.get
    )
    assert lines[3] == A_TASK[:-1] % 1 + (
        b',"_ng_task_index":1,"_ng_environment_server":"e1","_ng_rollout_index":1}'
    )
    assert materialized.routes == {Route("e1", None, None, "ts", is_task=True): 4}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"responses_create_params": {"temperature": 0.5}}, "responses_create_params overrides are"),
        ({"num_repeats_add_seed": True}, "num_repeats_add_seed is"),
    ],
)
def test_tasks_take_no_changes(settings: dict[str, object], field: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"lines 2 and 3 .*: {field} not supported"):
        materialize(tmp_path, A_ROW + b"\n" + A_TASK % 0 + b"\n" + A_TASK % 1, ROUTED, **settings)


def test_a_taskset_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"environment_server_routes has no .* taskset 'ts'"):
        materialize(tmp_path, A_TASK % 0)


def test_a_task_without_a_taskset_is_judged_as_a_flat_row(tmp_path: Path) -> None:
    row = b'{"task_id":{"task_id":"t"},"task_input":1,"responses_create_params":{},"agent_ref":{"name":"a"}}'
    _, materialized = materialize(tmp_path, row, ROUTED)
    assert materialized.routes == {Route(agent="a", is_task=True): 1}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b'{"agent_ref":{"name":"a"}}', "the row has no responses_create_params"),
        (b'{"responses_create_params":[],"agent_ref":{"name":"a"}}', "must be an object, and is a list"),
        (b'{"responses_create_params":{},"agent_ref":"a"}', "agent_ref must be an object .* is a string"),
        (b'{"responses_create_params":{},"agent_ref":{"name":1}}', "agent_ref.name must be a string"),
        (b'{"responses_create_params":{},"task_source":[]}', "task_source must be a string, and is a list"),
        (a_row(_ng_environment_server="1"), "_ng_environment_server must be a string"),
    ],
)
def test_rows_of_the_wrong_shape_are_refused_naming_field_and_line(
    row: bytes, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=rf"line 2 \(byte 67\): row 1: .*{problem}"):
        materialize(tmp_path, A_ROW + b"\n" + row)


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    rows = [
        A_ROW,
        b'{"responses_create_params":{}}',
        b'{"agent_ref":{"name":"a"}}',
        a_row(_ng_task_index="-1"),
    ]
    with pytest.raises(InputError) as refusal:
        materialize(tmp_path, b"\n\n".join(rows))
    for words in (
        "line 3 (row 1): No agent",
        "line 5 (row 2): the row has no resp",
        "line 7 (row 3): _ng_task",
    ):
        assert words in str(refusal.value)


def test_a_file_with_endless_kinds_of_problems_is_given_up(tmp_path: Path) -> None:
    rows = [a_row(_ng_task_index=str(-n)) for n in range(1, 100)]
    with pytest.raises(InputError) as refusal:
        materialize(tmp_path, b"\n".join(rows))
    assert len(str(refusal.value).splitlines()) == 20


def test_a_seed_needs_metadata_that_can_take_it(tmp_path: Path) -> None:
    for metadata in ("[1]", '{"extra_body":"[1]"}', '{"extra_body":"{"}', '{"extra_body":{}}'):
        row = b'{"responses_create_params":{"metadata":%s},"agent_ref":{"name":"a"}}' % metadata.encode()
        with pytest.raises(InputError, match=r"line 1 .*metadata.* to take a seed"):
            materialize(tmp_path, row, num_repeats_add_seed=True)


def test_names_of_num_repeats_that_no_row_has_are_told(tmp_path: Path) -> None:
    _, materialized = materialize(tmp_path, A_ROW, num_repeats={"a": 1, "b": 2, "_default": 3})
    assert materialized.notes[-1].endswith("(a typo?): ['b']")


def test_an_agent_kept_by_fan_out_keeps_its_other_fields_in_any_order(tmp_path: Path) -> None:
    row = b'{"responses_create_params":{},"agent_ref":{"type":"t","name":"b"}}'
    lines, _ = materialize(tmp_path, row, fan_out={"b": ("c", "b")})
    assert [json.loads(line)["agent_ref"] for line in lines] == [{"name": "c"}, {"type": "t", "name": "b"}]


def test_a_copy_for_an_agent_that_the_data_does_not_name_gets_it_after_the_task_index(tmp_path: Path) -> None:
    lines, _ = materialize(tmp_path, BY_SOURCE % b"s", fan_out={"s": ("m", "n")})
    assert lines[1].endswith(b'"_ng_task_index":0,"agent_ref":{"name":"n"},"_ng_rollout_index":1}')
