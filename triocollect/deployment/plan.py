"""Which server processes a set of rows needs, what they are called, and what each is told. Pure.

`<source>` is a resources server, `<source>_agent` and `<source>_environment` are instances on the one agent
and the one environment process, `policy_model` is the model server. The names are the same before anything
is started and after: `head_yaml` gives them without addresses for routing, with addresses for the head.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import yaml
from attrs import field, frozen

from triocollect.capture.staging import STAGING
from triocollect.config.settings import CutsMode, ServersConfig, TelemetryConfig
from triocollect.errors import ConfigError
from triocollect.protocol.values import JsonObject

ProcessKind: TypeAlias = Literal["environment", "agent", "model", "resources", "inference"]

# Resources servers that this package brings along: verifiers, then environments.
SOURCES: Final = (
    "exact_match",
    "multiple_choice",
    "numeric",
    "instructions",
    "json_schema",
    "counter",
    "blackjack",
    "sql",
)

ENVIRONMENT: Final = "environment"
AGENT: Final = "agent"
MODEL: Final = "policy_model"
INFERENCE: Final = "inference"
_TAKEN: Final = (ENVIRONMENT, AGENT, MODEL, INFERENCE, "head_server")

_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml may be missing


class Address(NamedTuple):
    """Where a process listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its base URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Process(NamedTuple):
    """One server process to be."""

    kind: ProcessKind
    name: str


@frozen(kw_only=True)
class Plan:
    """A deployment that is not started yet. `ports`: by process name; those not named are picked freely.

    `sources` are its resources servers; those of them that `peers` names run elsewhere, and are not started.

    With a `checkpoint_dir` and a `control_token`, which the collector has to show, the servers take part in
    checkpoints, and `cuts` says what becomes of the generations under way. `tokens_per_s` and `hold` are the
    scripted worker's: how fast it generates (None: at once), and whether it holds everything back until it is
    told otherwise.
    """

    sources: tuple[str, ...]
    peers: Mapping[str, Address] = field(factory=dict)
    model: str | None = None
    model_url: str | None = None  # None: the scripted inference worker
    model_api_key_file: Path | None = None
    effects_dir: Path | None = None  # where servers write what was done to them, a file each
    host: str = "127.0.0.1"
    ports: Mapping[str, int] = field(factory=dict)
    checkpoint_dir: Path | None = None
    control_token: str | None = field(default=None, repr=False)
    cuts: CutsMode = "on"
    tokens_per_s: float | None = None
    hold: bool = False
    workers: int = 1  # processes of each server; of the scripted worker there is one
    telemetry: TelemetryConfig = field(factory=TelemetryConfig)

    @property
    def processes(self) -> tuple[Process, ...]:
        """What is started: only what these sources need."""
        inference = () if self.model_url is not None else (Process("inference", INFERENCE),)
        return (
            Process("environment", ENVIRONMENT),
            Process("agent", AGENT),
            Process("model", MODEL),
            *inference,
            *(Process("resources", source) for source in self.sources if source not in self.peers),
        )

    def workers_of(self, process: Process) -> int:
        """How many processes serve behind its port."""
        return 1 if process.kind == "inference" else self.workers

    def takes_part(self, process: Process) -> bool:
        """Whether it is a participant of checkpoints."""
        return (
            self.checkpoint_dir is not None and self.control_token is not None and process.kind != "inference"
        )

    @property
    def staging(self) -> str | None:
        """The folder of staged cuts; None where nothing is cut."""
        if self.checkpoint_dir is None or self.control_token is None or self.cuts == "off":
            return None
        return str(self.checkpoint_dir / STAGING)


def agent_of(source: str) -> str:
    """The agent instance that plays the rows of a source."""
    return f"{source}_agent"


def environment_of(source: str) -> str:
    """The environment server instance that runs the rows of a source."""
    return f"{source}_environment"


def resources_servers(servers: ServersConfig) -> tuple[str, ...]:
    """The names of all that there can be: those that are brought along, and those of somebody else's.

    Raises ConfigError for a name that something else has here.
    """
    others = [name for name in servers.peers if name not in SOURCES]
    taken = [name for name in others if name in _TAKEN or name.endswith(("_agent", "_environment"))]
    if taken:
        raise ConfigError(*(f"peer {name}: a resources server cannot be called so here" for name in taken))
    return (*SOURCES, *others)


def plan_for(names: Iterable[str], servers: ServersConfig, *, effects_dir: Path | None = None) -> Plan:
    """The deployment for rows that name these: sources, or their agents or environment servers.

    Raises ConfigError, once for all, naming what is not known.
    """
    known = resources_servers(servers)
    sources = {name: _source_of(name, known) for name in dict.fromkeys(names)}
    if problems := [_unknown(name, known) for name, source in sources.items() if source is None]:
        raise ConfigError(*problems)
    wanted = set(sources.values())
    return Plan(
        sources=tuple(source for source in known if source in wanted),
        peers={name: Address(*at) for name, at in servers.peers.items() if name in wanted},
        model=servers.model,
        model_url=servers.model_url,
        model_api_key_file=servers.model_api_key_file,
        effects_dir=effects_dir,
        workers=servers.workers,
        cuts=servers.cuts,
    )


def head_yaml(sources: Iterable[str] = SOURCES, addresses: Mapping[str, Address] | None = None) -> str:
    """What the head serves, in the shape of Gym 0.7.0's. `addresses` by process name; None: not started."""
    at = addresses or {}
    tree: JsonObject = {MODEL: {"responses_api_models": {"triocollect_model": _place(at, MODEL)}}}
    for source in sources:
        resources: JsonObject = {"type": "resources_servers", "name": source}
        agent: JsonObject = {"type": "responses_api_agents", "name": agent_of(source)}
        model: JsonObject = {"type": "responses_api_models", "name": MODEL}
        tree[source] = {"resources_servers": {source: _place(at, source)}}
        tree[agent_of(source)] = {
            "responses_api_agents": {
                "tool_loop": {"resources_server": resources, "model_server": model, **_place(at, AGENT)}
            }
        }
        tree[environment_of(source)] = {
            "environment_servers": {
                "stepped": {
                    "agent_server": agent,
                    "resources_server": dict(resources),
                    **_place(at, ENVIRONMENT),
                }
            }
        }
    if ENVIRONMENT in at:
        tree["head_server"] = {"host": at[ENVIRONMENT].host, "port": at[ENVIRONMENT].port}
    text: str = yaml.dump(tree, Dumper=_DUMPER, sort_keys=False)
    return text


def settings_of(
    plan: Plan, process: Process, addresses: Mapping[str, Address], api_key: str | None = None
) -> JsonObject:
    """What one process is told on its standard input, as its `Settings` reads it."""
    settings = _own_settings(plan, process, addresses, api_key)
    if not plan.takes_part(process):
        return settings
    part: JsonObject = {
        "token": plan.control_token,
        "directory": str(plan.checkpoint_dir),
        "instance": process.name,
    }
    return {**settings, "checkpoint": part}


def _own_settings(
    plan: Plan, process: Process, addresses: Mapping[str, Address], api_key: str | None
) -> JsonObject:
    match process.kind:
        case "environment":
            return {
                "sources": {
                    source: {
                        "agent": agent_of(source),
                        "agent_url": addresses[AGENT].url,
                        "resources_url": addresses[source].url,
                    }
                    for source in plan.sources
                },
                "head": head_yaml(plan.sources, addresses),
            }
        case "agent":
            return {
                "agents": {
                    agent_of(source): {
                        "resources_name": source,
                        "resources_url": addresses[source].url,
                        "model_url": addresses[MODEL].url,
                    }
                    for source in plan.sources
                }
            }
        case "model":
            worker = plan.model_url if plan.model_url is not None else f"{addresses[INFERENCE].url}/v1"
            return {
                "worker_url": worker,
                "model": plan.model,
                "api_key": api_key,
                "cuts": plan.cuts,
                "worker_cuts": plan.model_url is None,
                "backend": plan.model_url is not None,
            }
        case "resources":
            effects = _account(plan, process)
            return {"name": process.name, "source": process.name, "effects_file": effects}
        case "inference":
            calls = _account(plan, process)
            return {
                "tokens_per_s": plan.tokens_per_s,
                "hold": plan.hold,
                "calls_file": calls,
                "staging": plan.staging,
            }


def _account(plan: Plan, process: Process) -> str | None:
    """Where a process writes down what was done to it."""
    return None if plan.effects_dir is None else str(plan.effects_dir / f"{process.name}.jsonl")


def _source_of(name: str, known: Iterable[str]) -> str | None:
    return next(
        (source for source in known if name in {source, agent_of(source), environment_of(source)}), None
    )


def _unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, [*known, *map(agent_of, known)], n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return (
        f"the embedded deployment has no {name!r}{meant} It has: {', '.join(known)} "
        "(agents are called <source>_agent); for servers of your own give --peer, --head-server or "
        "--environment-url"
    )


def _place(addresses: Mapping[str, Address], process: str) -> JsonObject:
    """The entry's `host` and `port`, which it has once the process has an address."""
    if (address := addresses.get(process)) is None:
        return {"entrypoint": "triocollect.servers"}
    return {"entrypoint": "triocollect.servers", "host": address.host, "port": address.port}
