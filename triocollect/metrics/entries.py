"""Gym 0.7.0's aggregate file: an entry for each server's metrics, and the name that these go by. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET, UnsetType


class Credited(msgspec.Struct, frozen=True):
    """Whose metrics they are: an agent's name, or a server's where that of its agent says too little."""

    name: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One server's part of the file, keys in Gym's order. The metrics are JSON, encoded already or not."""

    agent_ref: Credited
    environment_server: str | UnsetType = msgspec.field(name="_ng_environment_server", default=UNSET)
    agent_metrics: object
    key_metrics: object
    group_level_metrics: object
    repeat_level_metrics: object = UNSET
    perf_summary: object = UNSET

    @property
    def label(self) -> str:
        """The name these metrics go by."""
        return self.agent_ref.name


def labels_of(agents: Mapping[str, str | None]) -> dict[str, str]:
    """A label for each name: its agent's where that names nothing else, else its own. All differ."""
    labels = {name: agent or name for name, agent in agents.items()}
    while True:
        counts = Counter(labels.values())
        clashing = [name for name, label in labels.items() if counts[label] > 1 and label != name]
        if not clashing:
            return labels
        labels.update({name: name for name in clashing})


def file_bytes(entries: Iterable[Entry]) -> bytes:
    """The file: one array, indented by two, without a newline at its end; equal runs give equal bytes."""
    ordered = sorted(entries, key=lambda entry: entry.label)
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2)
