"""Settings that are right one by one and wrong together. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias, cast

from triocollect.config import kinds
from triocollect.config.given import Tree, any_leaf
from triocollect.config.table import BY_HOME

Home: TypeAlias = tuple[str, ...]
Values: TypeAlias = Mapping[Home, object]

_REQUIRED: Final = (("input", "path"), ("output", "path"))
_PARTICIPANTS: Final = ("servers", "participants")


def contradictions(values: Values, trees: Mapping[Home, Tree]) -> list[str]:
    """Every problem between settings. `trees` says where values came from, wrong ones too."""
    return [
        *_missing(trees),
        *_routing(values, trees),
        *_peers(values, trees),
        *_fan_out(values, trees),
        *_output(values, trees),
        *_checkpoints(trees),
        *_nameable(values, trees),
    ]


def _missing(trees: Mapping[Home, Tree]) -> Iterator[str]:
    for home in _REQUIRED:
        if home not in trees:
            setting = BY_HOME[home]
            yield f"{setting.name}: is missing; give {setting.short}/{setting.flag} FILE"


def _label(trees: Mapping[Home, Tree], home: Home) -> str:
    return any_leaf(trees[home]).label() if home in trees else BY_HOME[home].name


def _routing(values: Values, trees: Mapping[Home, Tree]) -> Iterator[str]:
    mode = values.get(("routing", "mode"), "agent")
    label = _label(trees, ("routing", "mode"))
    if mode == "legacy" and ("routing", "environment_server_name") not in values:
        yield f"{label}: legacy needs environment_server_name, the server of all flat rows"
    if mode == "taskset" and not values.get(("routing", "environment_server_routes")):
        yield f"{label}: taskset needs environment_server_routes, {{taskset: server}}"
    head, single = ("servers", "head_server"), ("servers", "environment_url")
    if head in values and single in values:
        yield f"{_label(trees, head)} and {_label(trees, single)}: give one of them"


def _peers(values: Values, trees: Mapping[Home, Tree]) -> Iterator[str]:
    """They join the deployment that a run starts; where servers are named, those say who there is."""
    home, label = ("servers", "peers"), _label(trees, ("servers", "peers"))
    names = [peer.name for peer in cast("kinds.Peers", values.get(home, ()))]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{label}: {name} is given twice"
    given = {label} if names else set()
    if (workers := ("servers", "workers")) in trees:
        given.add(_label(trees, workers))
    for other in (("servers", "head_server"), ("servers", "environment_url")):
        for one in sorted(given if other in values else ()):
            yield f"{one}: is part of the embedded deployment, which {_label(trees, other)} replaces"


def _fan_out(values: Values, trees: Mapping[Home, Tree]) -> Iterator[str]:
    home = ("input", "fan_out")
    for key, agents in cast("Mapping[str, tuple[str, ...]]", values.get(home, {})).items():
        tree = trees[home]
        label = any_leaf(tree[key] if isinstance(tree, dict) else tree).label()
        if not agents:
            yield f"{label}: is an empty list, which would drop every row of {key!r}; leave it out instead"
        if doubles := sorted({agent for agent in agents if agents.count(agent) > 1}):
            yield f"{label}: lists {', '.join(doubles)} more than once"


def _output(values: Values, trees: Mapping[Home, Tree]) -> Iterator[str]:
    resume, overwrite = ("output", "resume"), ("output", "overwrite")
    if values.get(overwrite) and values.get(resume) == "must":
        afresh, go_on = _label(trees, overwrite), _label(trees, resume)
        yield f"{afresh} starts afresh, but {go_on} must continue; give one of them"
    source, output = values.get(("input", "path")), values.get(("output", "path"))
    if source is not None and source == output:
        yield f"{_label(trees, ('output', 'path'))}: is the input file itself"


def _checkpoints(trees: Mapping[Home, Tree]) -> Iterator[str]:
    """What is said about checkpoints means nothing without a place for them."""
    if ("checkpoint", "dir") in trees:
        return
    given = [_label(trees, home) for home in trees if home[0] == "checkpoint" or home == _PARTICIPANTS]
    if given:
        yield f"{', '.join(given)}: needs --checkpoint-dir, the directory that checkpoints are kept in"


def _nameable(values: Values, trees: Mapping[Home, Tree]) -> Iterator[str]:
    """Servers are told of the directory in JSON, and the run file names it."""
    home = ("checkpoint", "dir")
    if (path := values.get(home)) is None:
        return
    try:
        str(cast("Path", path).absolute()).encode()
    except UnicodeEncodeError:
        yield f"{_label(trees, home)}: its path is no UTF-8, in which servers are told of it; rename it"
