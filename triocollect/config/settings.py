"""What a run can be told. Every default is here and nowhere else.

Durations are seconds, sizes are bytes. The classes hold values that `config.load` has already judged; a
program that builds them by hand is trusted.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NewType, get_args

from attrs import field, frozen

from triocollect.protocol.values import Json

Seconds = NewType("Seconds", float)  # finite, > 0
Count = NewType("Count", int)  # >= 1
ReplySize = NewType("ReplySize", int)  # 1 to LARGEST_REPLY_BYTES

LARGEST_REPLY_BYTES: Final = 1 << 30  # a record is a reply and stamps; its line must be readable again

ResumeMode = Literal["auto", "never", "must"]
RoutingMode = Literal["agent", "legacy", "taskset"]
ProgressStyle = Literal["auto", "rich", "plain", "json", "none"]
CutsMode = Literal["on", "exact", "off"]
ParticipantKind = Literal["environment", "model", "agent", "resources"]
TelemetryExport = Literal["none", "otlp"]
DriftField = Literal[
    "input",
    "limit",
    "num_repeats",
    "agent",
    "responses_create_params",
    "prompt_config",
    "model",
    "environment",
    "checkpoint_dir",
]
DRIFT_FIELDS: Final[tuple[DriftField, ...]] = get_args(DriftField)


@frozen(kw_only=True)
class InputConfig:
    """Which rows, and how they are expanded (Gym 0.7.0)."""

    path: Path
    limit: int | None = None  # None and 0: no limit, as in Gym
    num_repeats: Count | Mapping[str, Count] = Count(1)  # one for all, or by agent with `_default`
    num_repeats_add_seed: bool = False
    interleave_repeats: bool = False
    agent_map: Mapping[str, str] = field(factory=dict)  # `--agent NAME` is {"_default": NAME}
    fan_out: Mapping[str, tuple[str, ...]] = field(factory=dict)
    prompt_config: Path | None = None
    responses_create_params: Mapping[str, Json] = field(factory=dict)
    skills_path: Path | None = None
    gym_task_numbering: bool = False  # the raw line, its newline included, is the task's identity


@frozen(kw_only=True)
class RoutingConfig:
    """Which environment server gets a row (Gym 0.7.0)."""

    mode: RoutingMode = "agent"
    environment_server_name: str | None = None  # legacy mode: all flat rows go there
    environment_server_routes: Mapping[str, str] = field(factory=dict)  # taskset -> environment server
    allow_unsupported_pairing: bool = False


@frozen(kw_only=True)
class ServersConfig:
    """Where the servers are. Neither of the first two: the embedded deployment, with `peers` in it."""

    head_server: str | None = None  # base URL
    environment_url: str | None = None  # base URL; no head is asked
    peers: Mapping[str, tuple[str, int]] = field(factory=dict)  # resources servers by name: (host, port)
    participants: tuple[tuple[ParticipantKind, str], ...] = ()  # (kind, base URL)
    model: str | None = None
    model_url: str | None = None  # base URL of an OpenAI-compatible server; None: the scripted worker
    model_api_key_file: Path | None = None
    workers: Count = Count(1)  # processes of each server of the embedded deployment
    cuts: CutsMode = "on"  # what becomes of generations under way at a checkpoint


@frozen(kw_only=True)
class OutputConfig:
    """Where results go, and what happens to those of an earlier run."""

    path: Path
    resume: ResumeMode = "auto"
    overwrite: bool = False
    accept_drift: frozenset[DriftField] = frozenset()
    wait_for_lock_s: Seconds | None = None
    require_complete: bool = False
    disable_aggregation: bool = False
    count_failure_classes_as_zero: tuple[str, ...] = ()
    count_missing_rollouts_as_zero: bool = False
    retry_terminal_timeouts: bool = False


@frozen(kw_only=True)
class DispatchConfig:
    """How rows are sent."""

    concurrency: Count = Count(256)
    max_attempts: Count = Count(3)  # sends of one row per run
    row_timeout_s: Seconds | None = None
    connect_timeout_s: Seconds = Seconds(10.0)
    max_reply_bytes: ReplySize = ReplySize(256 * 1024 * 1024)
    budget_s: Seconds | None = None  # no row is started after this long
    drain_margin_s: Seconds | None = None  # None: 75th percentile of >= 5 finished rows
    longest_first: bool = False


@frozen(kw_only=True)
class CheckpointConfig:
    """Checkpoints exist only where a directory is named."""

    dir: Path
    every_s: Seconds | None = None
    timeout_s: Seconds = Seconds(300.0)
    grace_s: Seconds | None = None  # None: timeout_s
    preempt_exit_code: int = 75
    control_token_file: Path | None = None


@frozen(kw_only=True)
class DisplayConfig:
    """What is shown while the run goes on and at its end."""

    progress: ProgressStyle = "auto"
    json: bool = False


@frozen(kw_only=True)
class TelemetryConfig:
    """What is told to a trace store, a metrics store and a log: nothing unless asked for."""

    export: TelemetryExport = "none"  # where to, and the rest, is said by the OTEL_* variables
    prometheus: str | None = None  # HOST:PORT to be scraped at
    log_json: Path | None = None


@frozen(kw_only=True)
class Config:
    """All settings of one run."""

    input: InputConfig
    output: OutputConfig
    routing: RoutingConfig = field(factory=RoutingConfig)
    servers: ServersConfig = field(factory=ServersConfig)
    dispatch: DispatchConfig = field(factory=DispatchConfig)
    checkpoint: CheckpointConfig | None = None
    display: DisplayConfig = field(factory=DisplayConfig)
    telemetry: TelemetryConfig = field(factory=TelemetryConfig)
