"""Which agent runs the rows of a data set, and whether its verifier accepts that agent. Pure.

The rules are those of Gym 0.7.0, global_config.py (resolve_dataset_agent, allowed_agents_for).
"""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

from triocollect.errors import ConfigError
from triocollect.gym.config_tree import GymConfig, Server

_COMPARED: Final = 1000  # names that a misspelt one is compared with; that is slow
_OWNERS: Final = ("responses_api_agents", "resources_servers")  # of data sets
_FEW: Final = 16  # names that fit a message


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or the known names where they are few; nothing where they are many."""
    names = list(islice(known, _COMPARED + 1))
    if close := get_close_matches(name, names, n=1) if len(names) <= _COMPARED else []:
        return f" (did you mean {close[0]!r}?)"
    return f" (it has {_names(names)})" if len(names) <= _FEW else ""


def agent_of_source(config: GymConfig, source: str) -> str:
    """The agent for rows whose `task_source` is `source`. Raises ConfigError, one line.

    An agent is its own; a resources server goes by the `agent:` pin of its data sets, else by the one agent
    that is bound to it.
    """
    server = config.servers.get(source)
    if server is None or server.kind not in _OWNERS:
        raise ConfigError(f"task_source {source!r}: {_no_source(config, source)}")
    pins = _pins(server)
    if len(pins) > 1:
        raise ConfigError(
            f"task_source {source!r}: its data sets pin several agents ({_names(pins)}); "
            "pick one with +agent_map={" + source + ": AGENT}"
        )
    if server.kind == "responses_api_agents":
        if pins and pins != [source]:
            raise ConfigError(
                f"task_source {source!r}: this agent's data set pins another agent, {pins[0]!r}; "
                "drop the pin or declare the data set on the resources server"
            )
        return source
    candidates = [a.name for a in config.of_kind("responses_api_agents").values() if a.resources == source]
    if pins and pins[0] not in candidates:
        raise ConfigError(
            f"task_source {source!r}: its data set pins agent {pins[0]!r}, which is not bound to this "
            f"resources server; bound to it: {_names(candidates)}"
        )
    if not pins and len(candidates) != 1:
        raise ConfigError(
            f"task_source {source!r}: one agent must be bound to this resources server, there are "
            f"{len(candidates)} ({_names(candidates)}); pin one with `agent:` on the data set or pick one "
            "with +agent_map={" + source + ": AGENT}"
        )
    return (pins or candidates)[0]


def rejected_pairing(config: GymConfig, agent: str, source: str | None) -> list[str]:
    """Why a verifier does not accept this agent's implementation; nothing when it does or does not say.

    The verifiers are the rows' `task_source` and the resources server that the agent is bound to. Raises
    ConfigError where `allowed_agents` is not a list of names.
    """
    server = config.servers[agent]
    rejections = []
    relations = {source: "their task_source", server.resources: "its resources server"}
    for verifier, relation in relations.items():
        allowed = _allowed_agents(config, verifier)
        if allowed is not None and server.implementation not in allowed:
            rejections.append(
                f"rows of agent {agent!r} run {server.implementation!r}, but {relation} {verifier!r} accepts "
                f"only {', '.join(allowed)}; route them to another agent or pass --allow-unsupported-pairing"
            )
    return rejections


def _allowed_agents(config: GymConfig, verifier: str | None) -> list[str] | None:
    server = None if verifier is None else config.servers.get(verifier)
    declared = None if server is None else server.fields.get("allowed_agents")
    if server is None or server.kind != "resources_servers" or not declared:
        return None
    if isinstance(declared, str):
        return [declared]
    if not isinstance(declared, list) or any(isinstance(name, dict | list) for name in declared):
        raise ConfigError(f"server {verifier!r}: allowed_agents must be a list of agent implementations")
    return [str(name) for name in declared]


def _pins(server: Server) -> list[str]:
    """The different agents that the data sets of one server pin, in their order."""
    datasets = server.fields.get("datasets")
    if not isinstance(datasets, list):
        return []
    pins = (dataset.get("agent") for dataset in datasets if isinstance(dataset, dict))
    return list(dict.fromkeys(pin for pin in pins if isinstance(pin, str)))


def _no_source(config: GymConfig, source: str) -> str:
    if source in config.servers:
        return (
            f"one of the {config.servers[source].kind}, and only agents and resources servers own data sets"
        )
    if source in config.settings:
        return "not a server of the config"
    owners = (name for name, server in config.servers.items() if server.kind in _OWNERS)
    return "not in the config" + did_you_mean(source, owners)


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
