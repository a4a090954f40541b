"""Deployments whose records Gym would write differently."""

import pytest

from triocollect.gym.config_tree import parse_config
from triocollect.gym.observability import fields_unsupported


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "observability_enabled: true\nmodel_call_capture_dir: /shared",
            "observability_enabled with model_call_capture_dir",
        ),
        ("token_id_capture: {enabled: true}", "token_id_capture is on"),
    ],
)
def test_capture_that_is_on_is_refused_by_name(text: str, says: str) -> None:
    (problem,) = fields_unsupported(parse_config(text))
    assert says in problem


@pytest.mark.parametrize(
    "text",
    [
        "a: b",
        "observability_enabled: false\nmodel_call_capture_dir: /shared",
        "model_call_capture_dir: /shared",
        "token_id_capture: {enabled: false, dir: /x}",
    ],
)
def test_capture_that_is_off_is_no_hindrance(text: str) -> None:
    assert fields_unsupported(parse_config(text)) == []
