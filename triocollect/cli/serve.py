"""`triocollect serve`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn, cast, get_args
from urllib.parse import urlsplit

import msgspec
import trio
from attrs import evolve
from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.config import kinds
from triocollect.config.given import Given
from triocollect.config.judge import judge
from triocollect.config.settings import ServersConfig
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
from triocollect.errors import ConfigError, UsageError
from triocollect.protocol.handed_down import MODULE

ABOUT = f"""WHAT: all, environment, agent, model, inference, {", ".join(SOURCES)}. Serves until TERM or
Ctrl-C. The environment server is the head, which tells collectors where the others are. One server alone
must be told that by --peer NAME=URL (environment, agent, policy_model, inference, or a source)."""
EPILOGUE = """Examples:
  triocollect serve
  triocollect serve --port 11000 --model-url http://127.0.0.1:8000/v1
  triocollect serve counter --port 9001
  triocollect serve agent --peer counter=http://host:9001 \\
      --peer policy_model=http://host:9003

Exit codes:
  0  told to end
  1  a server did not start, or ended by itself
  2  usage, a port is taken, or the extra is missing: triocollect[servers]"""
PEERS: Final = (ENVIRONMENT, AGENT, MODEL, INFERENCE, *SOURCES)
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
            help="Where another server is; repeatable.", metavar="NAME=URL", negative="", show_default=False
        ),
    ] = (),
    model: Annotated[str | None, Parameter(help="Name of the policy model.", metavar="NAME")] = None,
    model_url: Annotated[str | None, Parameter(help="OpenAI-compatible server.", metavar="URL")] = None,
    model_api_key_file: Annotated[str | None, Parameter(help="File with its key.", metavar="FILE")] = None,
) -> int:
    """Serve until told to end."""
    require_servers()
    servers = ServersConfig(
        model=model,
        model_url=None if model_url is None else str(_read("--model-url", model_url, kinds.Url)),
        model_api_key_file=None if model_api_key_file is None else Path(model_api_key_file),
    )
    wanted = None if port is None else cast("int", _read("--port", port, kinds.Port))
    if what == "all":
        ports = {} if wanted is None else {ENVIRONMENT: wanted}
        plan = standing_plan(servers, host=host, ports=ports)
        trio.run(serve_all, plan, lambda url: say.out(f"serving {', '.join(plan.sources)}: head {url}"))
        return 0
    return _become(process_of(what), standing_plan(servers, host=host), wanted or 0, _peers(peer))


def process_of(what: str) -> Process:
    """The server that a word of the command line means. Raises UsageError."""
    if what in SOURCES:
        return Process("resources", what)
    if what in get_args(ProcessKind) and what != "resources":
        return Process(cast("ProcessKind", what), MODEL if what == _MODEL else what)
    raise UsageError(
        f"WHAT must be one of all, environment, agent, model, inference, {', '.join(SOURCES)}, not {what!r}"
    )


def _become(process: Process, plan: Plan, port: int, peers: dict[str, Address]) -> NoReturn:
    """Turn this process into the server, so that whoever started it signals the server itself."""
    plan = evolve(plan, sources=tuple(source for source in SOURCES if source in peers))
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
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *told])  # noqa: S606  # our own


def _settings(plan: Plan, process: Process, addresses: dict[str, Address]) -> bytes:
    try:
        return msgspec.json.encode(
            settings_of(plan, process, addresses, read_api_key(plan.model_api_key_file))
        )
    except KeyError as missing:
        raise UsageError(f"{process.name} needs to know where {missing} is: give --peer NAME=URL") from None


def _read(flag: str, text: str, kind: object) -> object:
    value, problems = judge(Given(text, flag, "(command line)", text=True), kind)
    if problems:
        raise ConfigError(*problems)
    return value


def _peers(named: Sequence[str]) -> dict[str, Address]:
    """Addresses by name. Raises UsageError for a name that no server has, and for one that is given twice."""
    addresses = dict[str, Address]()
    for peer in named:
        name, _, url = peer.partition("=")
        if name not in PEERS or name in addresses:
            what = "is given twice" if name in addresses else f"must name one of {', '.join(PEERS)}"
            raise UsageError(f"--peer {peer}: {what}")
        parts = urlsplit(str(_read(f"--peer {name}", url, kinds.Url)))
        if parts.scheme != "http" or parts.path:
            raise UsageError(f"--peer {peer}: servers are at http://HOST:PORT here, without a path")
        addresses[name] = Address(parts.hostname or "", parts.port or 80)
    return addresses
