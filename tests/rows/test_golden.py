"""What NeMo Gym 0.7.0 made of the same input and settings, byte for byte."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.errors import UsageError
from triocollect.rows.materialize import Materialized, draft_rows

GOLDEN = Path(__file__).parent / "golden"
JUDGED_BY_CONFIG = {"fan_out_empty", "repeats_zero"}  # never reach the rows
CASES = sorted(case.parent.name for case in GOLDEN.glob("*/input.jsonl"))
WELL, WRONG = (
    [
        case
        for case in CASES
        if (GOLDEN / case / "error.txt").exists() == wrong and case not in JUDGED_BY_CONFIG
    ]
    for wrong in (False, True)
)

# Where ours differs knowingly: integers keep their digits.
OURS = {"huge_int": (b"1.2345678901234568e+29", b"123456789012345678901234567890")}

# What each refusal must name: the fields, the lines of the file, and Gym's row numbers where they were right.
NAMED = {
    "materialized_overrides": ["line 1", "responses_create_params overrides", "materialized task rows"],
    "no_agent": [
        "lines 2 and 3",
        "rows [1, 2]",
        "No agent specified",
        "agent_map",
        "agent_ref",
        "task_source",
    ],
    "no_agent_limit": ["lines 2 and 3", "rows [1, 2]", "No agent specified"],
    "prompt_conflict": [
        "line 1",
        "row 0",
        "responses_create_params.input",
        "prompt_config",
        "mutually exclusive",
    ],
    "prompt_missing_field": ["line 1", "'question'", "['q', 'agent_ref']"],
    "repeats_dict_missing": ["line 2", "num_repeats has no entry", "'b1'", "_default", "['a1']"],
    "taskset_mode_flat": ["line 1", "task_id.taskset", "task_input", "environment_routing_mode=agent"],
}


def settings(case: str) -> tuple[InputConfig, RoutingConfig]:
    given = json.loads((GOLDEN / case / "config.json").read_text())
    routing = RoutingConfig(
        mode=given.pop("environment_routing_mode", "agent"),
        environment_server_name=given.pop("environment_server_name", None),
        environment_server_routes=given.pop("environment_server_routes", {}),
    )
    if (agent := given.pop("agent_name", None)) is not None:
        given["agent_map"] = {**given.get("agent_map", {}), "_default": agent}
    if (prompt := given.pop("prompt_config", None)) is not None:
        given["prompt_config"] = GOLDEN / case / prompt
    if (skills := given.pop("skills", None)) is not None:
        given["skills_path"] = GOLDEN / case / skills["path"]
    if given.get("num_repeats", 1) is None:
        given.pop("num_repeats")
    given["fan_out"] = {name: tuple(agents) for name, agents in given.get("fan_out", {}).items()}
    return InputConfig(path=GOLDEN / case / "input.jsonl", **given), routing


def materialize(case: str, folder: Path) -> tuple[bytes, Materialized]:
    destination = folder / "rollouts_materialized_inputs.jsonl"
    draft, materialized = draft_rows(*settings(case), destination, agent_of_source=None)
    draft.commit()
    return destination.read_bytes(), materialized


@pytest.mark.parametrize("case", WELL)
def test_the_materialised_file_has_the_bytes_that_gym_wrote(case: str, tmp_path: Path) -> None:
    expected = (GOLDEN / case / "materialized.jsonl").read_bytes().replace(*OURS.get(case, (b"", b"")))
    if case == "skills":  # the path is whatever was given
        expected = expected.replace(
            b'"path":"skills"', f'"path":"{GOLDEN / case / "../skills_dir"}"'.encode()
        )
    written, materialized = materialize(case, tmp_path)
    assert written == expected
    assert materialized.rows == expected.count(b"\n")


@pytest.mark.parametrize("case", WELL)
def test_what_gym_printed_is_said(case: str, tmp_path: Path) -> None:
    notes = "\n".join(materialize(case, tmp_path)[1].notes)
    for phrase in key_phrases(case):
        assert phrase in notes


@pytest.mark.parametrize("case", WRONG)
def test_what_gym_refused_is_refused_naming_fields_and_lines(case: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        materialize(case, tmp_path)
    for words in NAMED[case]:
        assert words in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def key_phrases(case: str) -> Iterator[str]:
    for line in (GOLDEN / case / "stdout.txt").read_text().splitlines():
        if "Using skills" in line:
            yield line.partition(" (")[2]
        else:
            yield line.rstrip("!")
    warnings = GOLDEN / case / "warnings.txt"
    for line in warnings.read_text().splitlines() if warnings.exists() else ():
        yield line.removeprefix("UserWarning: ").partition(". Prior")[0]
