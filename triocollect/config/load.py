"""Merges the origins of settings, judges the result, and reports every problem at once."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from attrs import frozen

from triocollect.config import kinds, settings
from triocollect.config.combinations import contradictions
from triocollect.config.given import Tree, origins, override
from triocollect.config.intake import Home, Origin, from_map, take_in
from triocollect.config.judge import judge
from triocollect.config.table import BY_HOME
from triocollect.errors import ConfigError

_SECTIONS: Final[Mapping[str, type[object]]] = {
    "input": settings.InputConfig,
    "routing": settings.RoutingConfig,
    "servers": settings.ServersConfig,
    "output": settings.OutputConfig,
    "dispatch": settings.DispatchConfig,
    "checkpoint": settings.CheckpointConfig,
    "display": settings.DisplayConfig,
    "telemetry": settings.TelemetryConfig,
}


class _Make(Protocol):
    def __call__(self, **fields: object) -> object: ...


@frozen
class Resolved:
    """Settings, and where they came from."""

    config: settings.Config
    origins: Mapping[str, tuple[str, ...]]  # setting name -> places; only what was given
    notes: tuple[str, ...]
    warnings: tuple[str, ...]  # what has no effect, and was probably meant to have one


def load_config(flat: Mapping[str, object]) -> settings.Config:
    """The settings of a program: our flat names, or Gym's, to values.

    As in Gym, a run starts afresh unless told otherwise (`resume` "auto" or "must", or `resume_from_cache`).
    Values have their types (`concurrency` 8, `row_timeout` 90.0 seconds or "15m"). Raises ConfigError.
    """
    return resolve([from_map({"resume": "never"}), from_map(flat)]).config


def resolve(sources: Sequence[Origin], unreadable: Sequence[str] = ()) -> Resolved:
    """Settings from origins in rising precedence. Raises ConfigError with every problem.

    `unreadable`: problems of values that nobody could even assign to a setting.
    """
    intakes = [take_in(source) for source in sources]
    trees: dict[Home, Tree] = {}
    for intake in intakes:
        for home, tree in intake.trees.items():
            trees[home] = override(trees[home], tree) if home in trees else tree
    trees = {home: tree for home, tree in trees.items() if not _is_null(home, tree)}
    problems = [*unreadable, *(problem for intake in intakes for problem in intake.problems)]
    values: dict[Home, object] = {}
    for home, tree in trees.items():
        value, faults = judge(tree, BY_HOME[home].kind)
        problems += faults
        if not faults:
            values[home] = value
    problems += contradictions(values, trees)
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return Resolved(
        _build(values),
        {BY_HOME[home].name: origins(tree) for home, tree in trees.items()},
        tuple(note for intake in intakes for note in intake.notes),
        tuple(warning for intake in intakes for warning in intake.warnings),
    )


def _is_null(home: Home, tree: Tree) -> bool:
    return not isinstance(tree, dict) and tree.value is None and BY_HOME[home].nullable


def _build(values: Mapping[Home, object]) -> settings.Config:
    sections: dict[str, dict[str, object]] = {"input": {}, "output": {}}
    for (section, name), value in values.items():
        sections.setdefault(section, {})[name] = value
    _settle(sections)
    made = {section: cast("_Make", _SECTIONS[section])(**fields) for section, fields in sections.items()}
    return cast("settings.Config", cast("_Make", settings.Config)(**made))


def _settle(sections: dict[str, dict[str, object]]) -> None:
    """Settings that are said in another shape, or imply another."""
    output, servers = sections["output"], sections.get("servers", {})
    if output.get("overwrite") and "resume" not in output:
        output["resume"] = "never"
    if "accept_drift" in output:
        output["accept_drift"] = frozenset(cast("tuple[settings.DriftField, ...]", output["accept_drift"]))
    if "participants" in servers:
        named = cast("kinds.Participants", servers["participants"])
        servers["participants"] = tuple((participant.kind, participant.url) for participant in named)
    if "peers" in servers:
        peers = cast("kinds.Peers", servers["peers"])
        servers["peers"] = {peer.name: (peer.host, peer.port) for peer in peers}
    dispatch = sections.get("dispatch", {})
    ceiling = cast("int | None", dispatch.pop("ceiling", None))
    if ceiling is not None:
        default = settings.DispatchConfig().concurrency
        dispatch["concurrency"] = min(ceiling, cast("int", dispatch.get("concurrency", default)))
