"""Names in the aggregate file."""

import pytest

from triocollect.metrics import labels_of


@pytest.mark.parametrize(
    ("agents", "labels"),
    [
        ({"e1": "a", "e2": "b"}, {"e1": "a", "e2": "b"}),
        ({"e1": "a", "e2": "a"}, {"e1": "e1", "e2": "e2"}),
        ({"e1": None}, {"e1": "e1"}),
        ({"e1": "e2", "e2": None}, {"e1": "e1", "e2": "e2"}),
        ({"a": "b", "b": "c"}, {"a": "b", "b": "c"}),
    ],
)
def test_a_label_is_the_agent_where_it_names_one_server_only(
    agents: dict[str, str | None], labels: dict[str, str]
) -> None:
    assert labels_of(agents) == labels
