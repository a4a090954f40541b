"""`triocollect fuzz`."""

import random
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Annotated, Final, cast

import msgspec
from attrs import evolve
from cyclopts import Parameter

from triocollect.cli import say
from triocollect.cli.app import command
from triocollect.cli.goodbye import BY_A_SIGNAL, run_until_told
from triocollect.cli.where import JSON
from triocollect.collector.control_token import control_token
from triocollect.config import kinds
from triocollect.config.given import Given
from triocollect.config.judge import judge
from triocollect.config.settings import Seconds
from triocollect.conformance import Examined, Terms, examine_url
from triocollect.conformance.findings import told
from triocollect.conformance.work import PLAIN_ROW
from triocollect.errors import ConfigError, Exit, InputError, UsageError
from triocollect.protocol.messages import Kind
from triocollect.protocol.values import NOT_JSON, Json, JsonObject
from triocollect.report.machine import as_json
from triocollect.rows.source import Source

ABOUT = """Tries every promise of the control protocol on servers, over the wire as a collector would, and
names the one that is broken: what was asked, what was answered, what was expected, where to look. Then it
asks in any order, again, at once and giving up, from a seed.

The servers must be running, with the control token that is given here, and without traffic: they are closed
and opened again and again. What was tried is cleaned up: its episodes are retired and forgotten and, where
--checkpoint-dir says where they are, its folders removed. What cannot be tried says why.

The same from a test of your own, without a socket: triocollect.conformance."""
EPILOGUE = """A URL is enough to begin with. More is tried
  when just started      restores: they need a process that has served nothing
  with --checkpoint-dir  what is on disk after a commit, and what must not be
  with --input           work, with a row that the server can play: POST /run,
                         /v1/responses, /v1/agent_sessions or /seed_session, by
                         its kind; --work is another route
  with --restart         whether another process goes on where this one stood

Examples:
  triocollect fuzz --participant resources=http://127.0.0.1:8000 \\
      --control-token-file token --checkpoint-dir /shared/checkpoints
  triocollect fuzz --environment-url http://127.0.0.1:8000 -i slow_row.jsonl
  triocollect fuzz --participant agent=http://127.0.0.1:8001 --seed 7 \\
      --restart 'docker restart --time 1 agent' --seconds 5m --json

Exit codes:
  0    no promise is broken; what could not be tried is named
  1    internal error
  2    the command line is wrong, or no participant answers there
  3    a promise is broken: it is named
  4    the server is in the middle of something: a run, a checkpoint, a restore
  130  interrupted; what was closed opens by itself, within a minute or so"""
# An environment comes last: its work is work of the others, who have then served.
ORDER: Final[tuple[Kind, ...]] = ("resources", "agent", "model", "environment")

app = command("fuzz", "[FLAGS]", ABOUT, EPILOGUE)


class _Told(msgspec.Struct, frozen=True):
    """What --json prints."""

    kept: bool
    participants: tuple[Examined, ...]


@app.default
def fuzz(  # noqa: PLR0913  # one parameter per flag is how the library reads them
    *,
    environment_url: Annotated[
        str | None, Parameter(help="An environment server: --participant environment=URL.", metavar="URL")
    ] = None,
    participant: Annotated[
        tuple[str, ...],
        Parameter(
            help="A server to try: environment, model, agent or resources; repeatable.",
            metavar="KIND=URL",
            negative="",
            show_default=False,
        ),
    ] = (),
    control_token_file: Annotated[
        str | None,
        Parameter(
            help="The token that the servers were started with; else TRIOCOLLECT_CONTROL_TOKEN.",
            metavar="FILE",
        ),
    ] = None,
    checkpoint_dir: Annotated[
        str | None, Parameter(help="The servers' checkpoint directory, as it is seen here.", metavar="DIR")
    ] = None,
    input: Annotated[  # noqa: A002  # the name of the flag
        str | None,
        Parameter(
            name=["--input", "-i"],
            help="JSON Lines; the first row is the work that the servers are asked for.",
            metavar="FILE",
        ),
    ] = None,
    work: Annotated[
        str | None,
        Parameter(
            help="Another route that begins a session: the row is posted to it, with x-rollout-id.",
            metavar="PATH",
        ),
    ] = None,
    restart: Annotated[
        str | None,
        Parameter(help="Starts the server anew, as another process at the same URL.", metavar="COMMAND"),
    ] = None,
    patience: Annotated[
        str, Parameter(help="Longest time for one piece of that work.", metavar="TIME")
    ] = "60s",
    seconds: Annotated[str, Parameter(help="How long to ask in any order.", metavar="TIME")] = "10s",
    seed: Annotated[str | None, Parameter(help="Of what is asked then [default: any].", metavar="N")] = None,
    json: Annotated[bool, JSON] = False,
) -> int:
    """Try, and tell."""
    given = {
        "--environment-url": (environment_url, kinds.Url),
        "--participant": (list(participant), kinds.Participants),
        "--checkpoint-dir": (checkpoint_dir, Path),
        "--patience": (patience, Seconds),
        "--seconds": (seconds, Seconds),
        "--seed": (seed, kinds.Natural),
    }
    read = _read(given)
    servers = _servers(read)
    if len(servers) > 1 and (work or restart):
        raise UsageError("--work and --restart are one server's: name one server at a time")
    anew = [] if restart is None else _words(restart)
    say_so = say.err if json else say.out
    terms = Terms(
        token=control_token(None if control_token_file is None else Path(control_token_file), embedded=False),
        directory=_directory(cast("Path | None", read["--checkpoint-dir"])),
        row=dict(PLAIN_ROW) if input is None else _row(Path(input)),
        path=work and _path(work),
        patience_s=cast("float", read["--patience"]),
        seconds=cast("float", read["--seconds"]),
        seed=random.SystemRandom().randrange(1 << 32) if seed is None else cast("int", read["--seed"]),
        tell=lambda finding: say_so(told(finding)),
    )
    examined = list[Examined]()
    for one in servers:
        ended = run_until_told(partial(_examined, one, terms, anew, say_so))
        if isinstance(ended, Signals):
            say.err("interrupted: what was closed opens by itself, within a minute or so")
            return BY_A_SIGNAL + ended
        examined.append(ended)
    kept = all(one.kept for one in examined)
    if json:
        say.out(as_json(_Told(kept, tuple(examined))).decode())
    return Exit.OK if kept else Exit.INCOMPLETE


async def _examined(
    server: kinds.Participant, terms: Terms, restart: Sequence[str], say_so: Callable[[str], None]
) -> Examined:
    say_so(f"{server.kind} at {server.url}")
    examined = await examine_url(server.url, evolve(terms, kind=server.kind), restart)
    say_so(examined.sum())
    return examined


def _read(given: Mapping[str, tuple[str | list[str] | None, object]]) -> dict[str, object]:
    """Raises ConfigError with every problem."""
    values, problems = dict[str, object](), list[str]()
    for flag, (said, kind) in given.items():
        values[flag] = None
        if said is not None:
            value = Given(said, flag, "(command line)", text=isinstance(said, str))
            values[flag], faults = judge(value, kind)
            problems += faults
    if problems:
        raise ConfigError(*problems)
    return values


def _servers(read: Mapping[str, object]) -> list[kinds.Participant]:
    """Those that are to be tried, each once. Raises UsageError for none."""
    servers = list(cast("kinds.Participants | None", read["--participant"]) or ())
    if (url := cast("kinds.Url | None", read["--environment-url"])) is not None:
        servers.append(kinds.Participant("environment", url))
    if not servers:
        raise UsageError(
            "name a server that is to be tried: --participant KIND=URL, or --environment-url URL"
        )
    return sorted(dict.fromkeys(servers), key=lambda one: ORDER.index(one.kind))


def _directory(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise UsageError(
            f"--checkpoint-dir {path}: there is no such folder; it is the one the servers write into"
        )
    return path


def _row(path: Path) -> JsonObject:
    """The first row. Raises InputError."""
    source = Source(path)
    line = next(source.lines(), None)
    if line is None:
        raise InputError("there is no row in it", path=str(path))
    try:
        row: Json = msgspec.json.decode(line)
    except NOT_JSON as error:
        raise InputError(f"is no JSON: {error}", path=str(path), line=source.line) from None
    if not isinstance(row, dict):
        raise InputError("is no JSON object", path=str(path), line=source.line)
    return row


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as fault:
        raise UsageError(f"--restart {command}: cannot be read as a command ({fault})") from None
    if not words or not words[0].strip():
        raise UsageError(f"--restart {command!r}: names no command; leave it out to restart nothing")
    return words


def _path(route: str) -> str:
    if not route.startswith("/") or "?" in route or not route.isascii() or not route.isprintable():
        raise UsageError(f"--work {route}: needs the path of a route such as /seed_session")
    return route
