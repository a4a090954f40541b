"""The one table of settings: flat names outside, sections inside.

Flags, --help, environment names, file keys and the names in messages all derive from it.
"""

from pathlib import Path
from typing import Final

from triocollect.config import kinds
from triocollect.config.setting import Setting
from triocollect.config.settings import (
    DRIFT_FIELDS,
    Count,
    CutsMode,
    DriftField,
    ProgressStyle,
    ReplySize,
    ResumeMode,
    RoutingMode,
    Seconds,
    TelemetryExport,
)

INPUT: Final = "Rows"
SERVERS: Final = "Servers (neither the head nor the environment named: the embedded deployment)"
RESULTS: Final = "Results"
SENDING: Final = "Sending"
CHECKPOINTS: Final = "Checkpoints"
TELEMETRY: Final = "Telemetry (the first two need the extra: triocollect[telemetry])"
DISPLAY: Final = "Display"
GROUPS: Final = (INPUT, RESULTS, SENDING, SERVERS, CHECKPOINTS, TELEMETRY, DISPLAY)  # as --help shows them


def _switch(
    name: str, home: tuple[str, str], about: str, group: str = "", gym: tuple[str, ...] = ()
) -> Setting:
    return Setting(name, bool, home, about, group, gym=gym, bare="true", nullable=False)


SETTINGS: Final = (
    Setting("input", Path, ("input", "path"), "Data set: one JSON object per line. Required.",
            INPUT, "-i", gym=("input_jsonl_fpath",), nullable=False, metavar="FILE"),
    Setting("num_repeats", kinds.Repeats, ("input", "num_repeats"),
            "Rollouts per row: a number, or by agent {a: 2, _default: 1}.", INPUT, "-r", metavar="N"),
    Setting("limit", kinds.Natural, ("input", "limit"), "Only the first N lines; 0: all.",
            INPUT, "-n", metavar="N"),
    Setting("agent", str, ("input", "agent_map", "_default"), "Agent for every row, whatever the data says.",
            INPUT, "-a", gym=("agent_name",), metavar="NAME"),
    _switch("interleave_repeats", ("input", "interleave_repeats"),
            "Send repeats as abcabc instead of aabbcc.", INPUT),
    _switch("num_repeats_add_seed", ("input", "num_repeats_add_seed"),
            "Give each repeat its own seed (metadata.extra_body).", INPUT),
    Setting("prompt_config", Path, ("input", "prompt_config"),
            "YAML with 'user' and 'system' templates that make a prompt of a row's fields.",
            INPUT, metavar="FILE"),
    Setting("temperature", kinds.Parameters, ("input", "responses_create_params", "temperature"),
            "Sampling temperature, overriding the data.", INPUT, metavar="X"),
    Setting("top_p", kinds.Parameters, ("input", "responses_create_params", "top_p"),
            "Nucleus sampling, 0 to 1, overriding the data.", INPUT, metavar="X"),
    Setting("max_output_tokens", kinds.Parameters, ("input", "responses_create_params", "max_output_tokens"),
            "Output token limit, overriding the data.", INPUT, metavar="N"),
    Setting("agent_map", kinds.NameMap, ("input", "agent_map"),
            "Agents by name or task source: {from: to, _default: other}."),
    Setting("fan_out", kinds.FanOut, ("input", "fan_out"), "Several agents per row: {agent: [x, y]}."),
    Setting("responses_create_params", kinds.Parameters, ("input", "responses_create_params"),
            "Fields that replace those of every row's responses_create_params."),
    Setting("skills_path", Path, ("input", "skills_path"), "Directory of skills.", gym=("skills.path",)),
    _switch("gym_task_numbering", ("input", "gym_task_numbering"),
            "Number tasks exactly as Gym: a last line without newline is another task."),

    Setting("head_server", kinds.HeadUrl, ("servers", "head_server"), "Gym's head server.",
            SERVERS, metavar="URL"),
    Setting("environment_url", kinds.Url, ("servers", "environment_url"),
            "One environment server for all rows; no head server is asked.", SERVERS, metavar="URL"),
    Setting("peer", kinds.Peers, ("servers", "peers"),
            "A resources server of yours beside the embedded ones, for rows of that task_source; repeatable.",
            SERVERS, gym=("peers",), metavar="NAME=URL"),
    Setting("participant", kinds.Participants, ("servers", "participants"),
            "A server that takes part in checkpoints (environment, model, agent, resources); repeatable.",
            CHECKPOINTS, gym=("participants",), metavar="KIND=URL"),
    Setting("model", str, ("servers", "model"), "Name of the policy model.",
            SERVERS, gym=("policy_model_name",), metavar="NAME"),
    Setting("model_url", kinds.Url, ("servers", "model_url"),
            "OpenAI-compatible server for the embedded deployment: vLLM, SGLang, llama.cpp's or another "
            "[default: a scripted model].",
            SERVERS, gym=("policy_base_url",), metavar="URL"),
    Setting("model_api_key_file", Path, ("servers", "model_api_key_file"),
            "File that holds the key for --model-url.", SERVERS, metavar="FILE"),

    Setting("workers", Count, ("servers", "workers"),
            "Processes of each server of the embedded deployment.", SERVERS, nullable=False, metavar="N"),

    Setting("environment_routing_mode", RoutingMode, ("routing", "mode"), "agent, legacy or taskset.",
            nullable=False),
    Setting("environment_server_name", str, ("routing", "environment_server_name"),
            "The environment server of all flat rows (legacy mode)."),
    Setting("environment_server_routes", kinds.NameMap, ("routing", "environment_server_routes"),
            "Environment servers by taskset: {taskset: server}."),
    _switch("allow_unsupported_pairing", ("routing", "allow_unsupported_pairing"),
            "Do not check an environment's allowed agents."),

    Setting("output", Path, ("output", "path"), "Results, one line each; names other files too. Required.",
            RESULTS, "-o", gym=("output_jsonl_fpath",), nullable=False, metavar="FILE"),
    Setting("resume", ResumeMode, ("output", "resume"),
            "auto: continue an earlier run, if any; never: start afresh; must: fail if there is none. "
            "The flag alone: must.", RESULTS, bare="must", nullable=False, metavar="auto|never|must"),
    _switch("overwrite", ("output", "overwrite"),
            "Start afresh even over results of an earlier run (implies --resume never).", RESULTS),
    Setting("accept_drift", tuple[DriftField, ...], ("output", "accept_drift"),
            f"Continue although this differs from the earlier run: {', '.join(DRIFT_FIELDS)}; repeatable.",
            RESULTS, metavar="FIELD"),
    Setting("wait_for_lock", Seconds, ("output", "wait_for_lock_s"),
            "Wait this long for another collector on the same output to end [default: refuse at once].",
            RESULTS, metavar="TIME"),
    _switch("require_complete", ("output", "require_complete"), "Exit 3 unless every row succeeds.", RESULTS),
    _switch("disable_aggregation", ("output", "disable_aggregation"), "Write no aggregate metrics.", RESULTS),
    Setting("count_failure_classes_as_zero", kinds.Names, ("output", "count_failure_classes_as_zero"),
            "Failure classes that count as reward 0: [agent_run_error, …]."),
    _switch("count_missing_rollouts_as_zero", ("output", "count_missing_rollouts_as_zero"),
            "Rows without a result count as reward 0."),
    _switch("retry_terminal_timeouts", ("output", "retry_terminal_timeouts"),
            "Try rows again that an earlier run gave up for a timeout."),

    Setting("concurrency", Count, ("dispatch", "concurrency"), "Rows in flight at a time.",
            SENDING, "-c", gym=("num_samples_in_parallel",), metavar="N"),
    Setting("max_attempts", Count, ("dispatch", "max_attempts"),
            "Sends of one row per run, while no reply comes.", SENDING, nullable=False, metavar="N"),
    Setting("row_timeout", Seconds, ("dispatch", "row_timeout_s"),
            "Longest time a row may take [default: none].", SENDING, metavar="TIME"),
    Setting("connect_timeout", Seconds, ("dispatch", "connect_timeout_s"), "Longest time to connect.",
            SENDING, nullable=False, metavar="TIME"),
    Setting("max_reply_bytes", ReplySize, ("dispatch", "max_reply_bytes"),
            "Largest reply that is accepted, up to 1GiB.", SENDING, nullable=False, metavar="SIZE"),
    Setting("dispatch_budget", Seconds, ("dispatch", "budget_s"), "Start no row after this long.",
            SENDING, gym=("dispatch_budget_s",), metavar="TIME"),
    Setting("drain_margin", Seconds, ("dispatch", "drain_margin_s"),
            "Start no row this long before the budget ends [default: what 3 of 4 finished rows needed].",
            SENDING, gym=("drain_margin_s",), metavar="TIME"),
    _switch("longest_first", ("dispatch", "longest_first"), "Resume with the rows that took longest.",
            SENDING, ("dispatch_longest_first",)),
    Setting("max_resident_rollout_tasks", Count, ("dispatch", "ceiling"), "Upper bound of the concurrency."),

    Setting("checkpoint_dir", Path, ("checkpoint", "dir"),
            "Directory for checkpoints; without it none are taken.", CHECKPOINTS, metavar="DIR"),
    Setting("checkpoint_every", Seconds, ("checkpoint", "every_s"), "Time between checkpoints.",
            CHECKPOINTS, gym=("checkpoint_every_s",), metavar="TIME"),
    Setting("checkpoint_timeout", Seconds, ("checkpoint", "timeout_s"), "Longest time for one checkpoint.",
            CHECKPOINTS, gym=("checkpoint_timeout_s",), nullable=False, metavar="TIME"),
    Setting("grace", Seconds, ("checkpoint", "grace_s"),
            "Time from TERM to the end [default: the checkpoint timeout].", CHECKPOINTS, metavar="TIME"),
    Setting("preempt_exit_code", kinds.ExitStatus, ("checkpoint", "preempt_exit_code"),
            "Exit code after a stop with a checkpoint.", CHECKPOINTS, nullable=False, metavar="N"),
    Setting("cuts", CutsMode, ("servers", "cuts"),
            "Keep what the embedded model server has of answers under way, and continue it: on; exact: only "
            "where the text is then the same for sure; off: generate them again.",
            CHECKPOINTS, nullable=False, metavar="on|exact|off"),
    Setting("control_token_file", Path, ("checkpoint", "control_token_file"),
            "File (mode 0600) that holds the control token.", CHECKPOINTS, metavar="FILE"),

    Setting("telemetry", TelemetryExport, ("telemetry", "export"),
            "otlp: send spans and metrics by OTLP/HTTP, as the OTEL_* variables say. The flag alone: otlp.",
            TELEMETRY, bare="otlp", nullable=False, metavar="none|otlp"),
    Setting("prometheus", kinds.ScrapeAddress, ("telemetry", "prometheus"),
            "Let Prometheus scrape metrics there; the embedded servers take the ports after it.",
            TELEMETRY, metavar="HOST:PORT"),
    Setting("log_json", Path, ("telemetry", "log_json"),
            "Append a log of JSON lines to this file, the embedded servers', too.",
            TELEMETRY, metavar="FILE"),

    Setting("progress", ProgressStyle, ("display", "progress"), "What is shown while rows run.",
            DISPLAY, nullable=False, metavar="auto|rich|plain|json|none"),
    _switch("json", ("display", "json"),
            "What it has to tell as one JSON object on stdout; text for people on stderr.", DISPLAY),
)  # fmt: skip

BY_KEY: Final = {key: setting for setting in SETTINGS for key in (setting.name, *setting.gym)}
BY_HOME: Final[dict[tuple[str, ...], Setting]] = {
    setting.home: setting for setting in SETTINGS if setting.home == setting.home[:2]
}
