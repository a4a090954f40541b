"""`triocollect serve`."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn, cast, get_args

import msgspec
import trio
from attrs import evolve, field, frozen
from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.collector.control_token import control_token
from triocollect.config import kinds
from triocollect.config.given import Given
from triocollect.config.judge import judge
from triocollect.config.settings import (
    Count,
    CutsMode,
    Seconds,
    ServersConfig,
    TelemetryConfig,
    TelemetryExport,
)
from triocollect.config.table import BY_KEY
from triocollect.deployment import SOURCES, Plan, serve_all, standing_plan
from triocollect.deployment.plan import (
    AGENT,
    ENVIRONMENT,
    INFERENCE,
    MODEL,
    Address,
    Process,
    ProcessKind,
    settings_of,
)
from triocollect.deployment.provisions import listen, read_api_key, require_servers
from triocollect.deployment.telling import telemetry_flags
from triocollect.deployment.variables import as_asked
from triocollect.errors import ConfigError, UsageError
from triocollect.protocol.handed_down import MODULE
from triocollect.telemetry.recorder import require_extra, wanted

ABOUT = f"""WHAT: all, environment, agent, model, inference, {", ".join(SOURCES)}. Serves until TERM or
Ctrl-C. The environment server is the head, which tells collectors where the others are. One server alone
must be told that by --peer NAME=URL (environment, agent, policy_model, inference, or a resources server, one
of these or of your own). For all, --peer NAME=URL puts a resources server of your own among them.

With --checkpoint-dir the servers take part in checkpoints of collectors that show the same token: the one in
--control-token-file, else TRIOCOLLECT_CONTROL_TOKEN. Told to end while a collector is at work, they first let
it take the checkpoint that it stops with; a second TERM or Ctrl-C ends them at once. A collector that was
stopped continues its rows on servers that were started after it: start these anew, too, before it; on servers
that are up still its rows start from their input."""
EPILOGUE = """Examples:
  triocollect serve
  triocollect serve --port 11000 --model-url http://127.0.0.1:8000/v1
  triocollect serve --checkpoint-dir /shared/ckpt --control-token-file token
  triocollect serve counter --port 9001
  triocollect serve agent --peer counter=http://host:9001 \\
      --peer policy_model=http://host:9003

Exit codes:
  0  told to end
  1  a server did not start, or ended by itself
  2  usage, a port is taken, or the extra is missing: triocollect[servers]"""
_OWN: Final = (ENVIRONMENT, AGENT, MODEL, INFERENCE)  # what is no resources server
_RESOURCES: Final = "resources"
GRACE_S: Final = 130.0
_MODEL: Final = "model"

app = command("serve", "[WHAT] [FLAGS]", ABOUT, EPILOGUE)


@app.default
def serve(  # noqa: PLR0913  # one parameter per flag is how the library reads them
    what: Annotated[str, Parameter(help="What to serve.")] = "all",
    /,
    *,
    host: Annotated[str, Parameter(help="Address to listen on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[
        str | None,
        Parameter(help="Port; for all, that of the head, else 11000. One server: any.", metavar="PORT"),
    ] = None,
    peer: Annotated[
        tuple[str, ...],
        Parameter(
            help="Where another server is, one of yours for all; repeatable.",
            metavar="NAME=URL",
            negative="",
            show_default=False,
        ),
    ] = (),
    model: Annotated[str | None, Parameter(help="Name of the policy model.", metavar="NAME")] = None,
    model_url: Annotated[str | None, Parameter(help="OpenAI-compatible server.", metavar="URL")] = None,
    model_api_key_file: Annotated[str | None, Parameter(help="File with its key.", metavar="FILE")] = None,
    workers: Annotated[
        str | None, Parameter(help="Processes of each server behind its port, else 1.", metavar="N")
    ] = None,
    checkpoint_dir: Annotated[
        str | None, Parameter(help="The collectors' checkpoint directory, as it is seen here.", metavar="DIR")
    ] = None,
    control_token_file: Annotated[
        str | None, Parameter(help="What collectors have to show; mode 0600.", metavar="FILE")
    ] = None,
    cuts: Annotated[
        str, Parameter(help="What becomes of answers under way at a checkpoint.", metavar="on|exact|off")
    ] = "on",
    grace: Annotated[
        str | None, Parameter(help="Longest wait for a collector's stop, else 130s.", metavar="TIME")
    ] = None,
    telemetry: Annotated[
        str | None, Parameter(help="otlp: send spans and metrics as OTEL_* says.", metavar="none|otlp")
    ] = None,
    prometheus: Annotated[
        str | None, Parameter(help="To be scraped at; for all, also ports above.", metavar="HOST:PORT")
    ] = None,
    log_json: Annotated[str | None, Parameter(help="Append JSON lines to it.", metavar="FILE")] = None,
) -> int:
    """Serve until told to end."""
    require_servers()
    part = _part(checkpoint_dir, control_token_file, grace, _telemetry(telemetry, prometheus, log_json))
    peers = _peers(peer)
    servers = ServersConfig(
        peers=_joining(what, peers),
        model=model,
        model_url=None if model_url is None else str(_read("--model-url", model_url, kinds.Url)),
        model_api_key_file=None if model_api_key_file is None else Path(model_api_key_file),
        workers=Count(1) if workers is None else cast("Count", _read("--workers", workers, Count)),
        cuts=cast("CutsMode", _read("--cuts", cuts, CutsMode)),
    )
    wanted = None if port is None else cast("int", _read("--port", port, kinds.Port))
    if what == "all":
        ports = {} if wanted is None else {ENVIRONMENT: wanted}
        plan = part.of(standing_plan(servers, host=host, ports=ports))
        say.err(f"starting {len(plan.processes)} servers")
        served = f"serving {', '.join(plan.sources)}: head"
        trio.run(serve_all, plan, lambda url: say.out(f"{served} {url}"), part.grace_s, say.err)
        say.err("told to end: every server has ended")
        return 0
    plan, process = part.of(standing_plan(servers, host=host)), process_of(what)
    if plan.workers != plan.workers_of(process):
        raise UsageError(f"--workers: the {process.name} server is always one process; leave it out")
    return _become(process, plan, wanted or 0, peers, part.grace_s)


def process_of(what: str) -> Process:
    """The server that a word of the command line means. Raises UsageError."""
    if what in SOURCES:
        return Process("resources", what)
    if what in get_args(ProcessKind) and what != "resources":
        return Process(cast("ProcessKind", what), MODEL if what == _MODEL else what)
    raise UsageError(
        f"WHAT must be one of all, environment, agent, model, inference, {', '.join(SOURCES)}, not {what!r}"
    )


def _become(process: Process, plan: Plan, port: int, peers: dict[str, Address], grace_s: float) -> NoReturn:
    """Turn this process into the server, so that whoever started it signals the server itself."""
    asked = _asked_by(process, plan)
    if strange := [name for name in peers if name not in asked and (name in _OWN or _RESOURCES not in asked)]:
        whom = ", ".join(asked) or "nobody"
        raise UsageError(f"--peer {strange[0]}: the {process.name} server asks {whom}; leave it out")
    if asked and not peers:
        say.err(
            f"note: the {process.name} server asks {', '.join(asked)}: --peer NAME=URL says where they are"
        )
    plan = evolve(plan, sources=tuple(name for name in peers if name not in _OWN))
    with listen(process.name, plan.host, port) as listener:
        here = Address(*listener.getsockname()[:2])
        settings = _settings(plan, process, {**peers, process.name: here})
        say.out(f"serving {process.name}: {here.url}")
        reader, writer = os.pipe()
        os.write(writer, settings + b"\n")
        os.close(writer)
        os.dup2(reader, 0)
        os.set_inheritable(listener.fileno(), True)  # noqa: FBT003  # the standard library's own signature
        told = [process.kind, "--name", process.name, "--fd", str(listener.fileno())]
        told += ["--grace", str(grace_s), "--workers", str(plan.workers_of(process))]
        told += telemetry_flags(plan.telemetry)
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *told])  # noqa: S606  # our own


def _settings(plan: Plan, process: Process, addresses: dict[str, Address]) -> bytes:
    try:
        return msgspec.json.encode(
            settings_of(plan, process, addresses, read_api_key(plan.model_api_key_file))
        )
    except KeyError as missing:
        raise UsageError(f"{process.name} needs to know where {missing} is: give --peer NAME=URL") from None


@frozen
class _Part:
    """How servers take part in checkpoints: not at all without a directory."""

    directory: Path | None = None
    token: str | None = field(default=None, repr=False)
    grace_s: float = 0.0
    telemetry: TelemetryConfig = field(factory=TelemetryConfig)

    def of(self, plan: Plan) -> Plan:
        """The plan of servers that do, and that do what the environment asks for."""
        plan = evolve(plan, checkpoint_dir=self.directory, control_token=self.token)
        return as_asked(evolve(plan, telemetry=self.telemetry))


def _made(directory: Path) -> Path:
    """It is there from the start: who collects, or tries the servers, has to find it. Raises UsageError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--checkpoint-dir {directory}: it cannot be made: {error.strerror}") from error
    return directory


def _part(
    directory: str | None, token_file: str | None, grace: str | None, telemetry: TelemetryConfig
) -> _Part:
    """Raises UsageError."""
    if directory is None:
        if token_file is not None or grace is not None:
            raise UsageError("--control-token-file and --grace need --checkpoint-dir")
        return _Part(telemetry=telemetry)
    token = control_token(None if token_file is None else Path(token_file), embedded=False)
    return _Part(
        directory=_made(cast("Path", _read("--checkpoint-dir", directory, Path)).absolute()),
        token=token,
        grace_s=GRACE_S if grace is None else cast("float", _read("--grace", grace, Seconds)),
        telemetry=telemetry,
    )


def _telemetry(export: str | None, prometheus: str | None, log: str | None) -> TelemetryConfig:
    """Raises ConfigError, and UsageError where the extra is missing."""
    asked = {"telemetry": export, "prometheus": prometheus, "log_json": log}
    given = {
        name: _read(BY_KEY[name].flag, text, BY_KEY[name].kind)
        for name, text in asked.items()
        if text is not None
    }
    settings = TelemetryConfig(
        export=cast("TelemetryExport", given.get("telemetry", "none")),
        prometheus=cast("str | None", given.get("prometheus")),
        log_json=cast("Path | None", given.get("log_json")),
    )
    if wanted(settings):
        require_extra(settings)
    return settings


def _read(flag: str, text: str, kind: object) -> object:
    value, problems = judge(Given(text, flag, "(command line)", text=True), kind)
    if problems:
        raise ConfigError(*problems)
    return value


def _peers(named: Sequence[str]) -> dict[str, Address]:
    """Addresses by name. Raises ConfigError, and UsageError for a name that is given twice."""
    found, problems = judge(Given(list(named), "--peer", "(command line)"), kinds.Peers)
    if problems:
        raise ConfigError(*problems)
    addresses = dict[str, Address]()
    for peer in cast("kinds.Peers", found):
        if peer.name in addresses:
            raise UsageError(f"--peer {peer.name} is given twice")
        addresses[peer.name] = Address(peer.host, peer.port)
    return addresses


def _joining(what: str, peers: Mapping[str, Address]) -> Mapping[str, Address]:
    """The resources servers of somebody else's among them. Raises UsageError for what joins nothing."""
    if what == "all" and (started := [name for name in peers if name in _OWN]):
        raise UsageError(f"--peer {started[0]}: all servers start their own; name resources servers only")
    return {name: address for name, address in peers.items() if name not in _OWN}


def _asked_by(process: Process, plan: Plan) -> tuple[str, ...]:
    """Whom a server asks, by name; `resources` stands for every resources server."""
    match process.kind:
        case "environment":
            return (AGENT, MODEL, _RESOURCES)  # the model only tells collectors where it is
        case "agent":
            return (MODEL, _RESOURCES)
        case "model":
            return (INFERENCE,) if plan.model_url is None else ()
        case "resources" | "inference":
            return ()
