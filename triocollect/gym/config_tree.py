"""The merged Gym config that a head server hands out: which servers there are, and where. Pure.

A config is one mapping; each top-level entry that holds one of four kinds is a server, everything else is a
setting. Secrets are in it in clear text, so an error here quotes addresses and names only, and those as they
are written: what stands behind an interpolation is never told.
"""

import copy
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import msgspec
import yaml

from triocollect.config.words import shown
from triocollect.errors import ConfigError
from triocollect.gym import bounded_yaml
from triocollect.gym.interpolation import resolve
from triocollect.protocol.values import Json, JsonObject

Kind: TypeAlias = Literal[
    "environment_servers", "responses_api_agents", "responses_api_models", "resources_servers"
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAX_CONFIG_BYTES: Final = 16 << 20
NOTHING_SET: Final[Mapping[str, str]] = MappingProxyType({})
_HIGHEST_PORT: Final = 65535


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server of the config. `implementation` is the name under its kind, e.g. `legacy_agent`.

    `url` is None where the config gives no usable address; `url_fault` then says why. `agents` are those an
    environment server fronts, `attributed` the one its results count for, `resources` the resources server
    that an agent or an environment server is bound to. `fields` are as configured, unresolved.
    """

    name: str
    kind: Kind
    implementation: str
    url: str | None = None
    url_fault: str = ""
    agents: tuple[str, ...] = ()
    attributed: str | None = None
    resources: str | None = None
    fields: JsonObject = {}


class GymConfig(msgspec.Struct, frozen=True):
    """`servers` by name, in the order of the config; `settings` are its other top-level keys."""

    servers: dict[str, Server]
    settings: JsonObject = {}

    def of_kind(self, kind: Kind) -> dict[str, Server]:
        """The servers of one kind, by name."""
        return {name: server for name, server in self.servers.items() if server.kind == kind}


def parse_config(
    text: str | bytes, *, environ: Mapping[str, str] = NOTHING_SET, origin: str = "the config"
) -> GymConfig:
    """YAML text to servers. `environ` answers `${oc.env:…}`, `origin` names the source in errors.

    Interpolations are resolved in addresses and server names only; others may stay unresolvable.
    Raises ConfigError where it is not YAML or not one mapping.
    """
    if len(text) > MAX_CONFIG_BYTES:
        raise ConfigError(
            f"{origin}: {len(text)} bytes of config are more than the {MAX_CONFIG_BYTES} we take"
        )
    tree = _load(text, origin)
    servers: dict[str, Server] = {}
    settings: JsonObject = {}
    for name, entry in tree.items():
        server = _server(name, entry, tree, environ)
        if server is None:
            settings[name] = entry
        else:
            servers[name] = server
    return GymConfig(servers, settings)


@lru_cache(maxsize=1)  # a run asks its head again before its end, which says the same as a rule
def _value(text: str | bytes) -> Json:
    """All who ask have the same one: to be copied. Raises what `bounded_yaml.load` raises."""
    return bounded_yaml.load(text, limit=MAX_CONFIG_BYTES)


def _load(text: str | bytes, origin: str) -> JsonObject:
    try:
        tree = copy.deepcopy(_value(text))
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        place = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigError(f"{origin}{place}: the config is not YAML: {fault.problem}") from None
    except bounded_yaml.UnfitYamlError as fault:
        raise ConfigError(f"{origin}: the config is not to be taken: {fault}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        raise ConfigError(f"{origin}: the config is not YAML ({type(fault).__name__})") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{origin}: the config is not a mapping of names to servers")
    return {str(name): entry for name, entry in tree.items()}


def _server(name: str, entry: Json, tree: JsonObject, environ: Mapping[str, str]) -> Server | None:
    if not isinstance(entry, dict):
        return None
    kind = next((kind for kind in KINDS if kind in entry), None)
    group = None if kind is None else entry[kind]
    if kind is None or not isinstance(group, dict) or not group:
        return None
    implementation, fields = next(iter(group.items()))
    if not isinstance(fields, dict):
        return None
    url, url_fault = _address(name, fields, tree, environ)
    agents: tuple[str, ...] = ()
    attributed = None
    if kind == "environment_servers":
        agents = tuple(dict.fromkeys(_agents(fields, tree, environ)))
        attributed = _reference(fields.get("agent_server"), tree, environ)
        if attributed is None and len(agents) == 1:
            attributed = agents[0]
    return Server(
        name=name,
        kind=kind,
        implementation=str(implementation),
        url=url,
        url_fault=url_fault,
        agents=agents,
        attributed=attributed,
        resources=_reference(fields.get("resources_server"), tree, environ),
        fields=fields,
    )


def _agents(fields: JsonObject, tree: JsonObject, environ: Mapping[str, str]) -> Iterable[str]:
    """The agents an environment server fronts (Gym 0.7.0, global_config.py, environment_server_agent_refs).

    Any field whose value has `type: responses_api_agents` names one; so does `agent_server` without a type.
    """
    for field, value in fields.items():
        if not isinstance(value, dict):
            continue
        kind = value.get("type")
        if kind == "responses_api_agents" or (field == "agent_server" and kind is None):
            name = _reference(value, tree, environ)
            if name is not None:
                yield name


def _reference(value: Json, tree: JsonObject, environ: Mapping[str, str]) -> str | None:
    """The name in `{type: …, name: …}`; as written where it cannot be resolved, for errors to show."""
    name = value.get("name") if isinstance(value, dict) else None
    try:
        resolved = resolve(name, tree, environ)
    except ConfigError:
        resolved = name
    if isinstance(resolved, dict | list):  # behind the interpolation is no name
        resolved = name
    if isinstance(resolved, dict | list):
        return shown(resolved)
    return None if resolved is None else str(resolved)


def _address(
    name: str, fields: JsonObject, tree: JsonObject, environ: Mapping[str, str]
) -> tuple[str | None, str]:
    """(`http://host:port`, "") or (None, why not): Gym knows no TLS and no path (0.7.0, server_utils.py)."""
    try:
        host = resolve(fields.get("host"), tree, environ)
        port = resolve(fields.get("port"), tree, environ)
    except ConfigError as fault:
        return None, f"server {name!r} has no usable address: {fault}"
    if not isinstance(host, str) or not host or set(host) & set(" \t\r\n/@?#"):
        return None, f"server {name!r} has no usable host in the config: {shown(fields.get('host'))}"
    digits = str(port) if isinstance(port, int | str) else ""
    if not (digits.isascii() and digits.isdigit() and 1 <= int(digits[:6]) <= _HIGHEST_PORT):
        return None, f"server {name!r} has no usable port in the config: {shown(fields.get('port'))}"
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{int(digits)}", ""
