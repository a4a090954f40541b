"""Settings of a program, in our names or Gym's."""

import math
from pathlib import Path
from typing import get_args

import attrs
import pytest

from triocollect.config import kinds, settings
from triocollect.config.given import Given
from triocollect.config.intake import Origin, from_environment, from_map
from triocollect.config.judge import judge
from triocollect.config.load import load_config, resolve
from triocollect.config.setting import PREFIX
from triocollect.config.table import BY_HOME, SETTINGS
from triocollect.errors import ConfigError

DURATION = "needs a duration (a number, or text with a unit: 90s, 15m, 2h)"
FILES = {"input": "in.jsonl", "output": "out.jsonl"}


def problems(flat=None, **more):
    with pytest.raises(ConfigError) as refusal:
        load_config({**FILES, **(flat or {}), **more})
    return refusal.value.problems


def command_line(**texts):
    flags = {key: "--" + key.replace("_", "-") for key in texts}
    return Origin(
        tuple((key, Given(text, flags[key], "(command line)", text=True)) for key, text in texts.items())
    )


def test_a_program_gets_the_defaults_and_a_fresh_run_as_in_gym():
    config = load_config(FILES)
    assert config.input == settings.InputConfig(path=Path("in.jsonl"))
    assert config.output == settings.OutputConfig(path=Path("out.jsonl"), resume="never")
    assert config.dispatch == settings.DispatchConfig()
    assert config.checkpoint is None


def test_the_names_of_gym_mean_the_same():
    ours = load_config(
        {
            "input": "a",
            "output": "b",
            "concurrency": 8,
            "agent": "x",
            "resume": "must",
            "dispatch_budget": 90,
            "longest_first": True,
            "skills_path": "s",
            "head_server": "http://127.0.0.1:11100",
        }
    )
    gyms = load_config(
        {
            "input_jsonl_fpath": "a",
            "output_jsonl_fpath": "b",
            "num_samples_in_parallel": 8,
            "agent_name": "x",
            "resume_from_cache": True,
            "dispatch_budget_s": 90,
            "dispatch_longest_first": True,
            "skills": {"path": "s"},
            "head_server": {"port": 11100},
        }
    )
    assert ours == gyms
    assert gyms.input.agent_map == {"_default": "x"}


def test_every_setting_of_every_section_is_in_the_table():
    sections = attrs.fields_dict(settings.Config)
    homes = {
        (section, field.name)
        for section in sections
        for field in attrs.fields(getattr(settings, section.capitalize() + "Config"))
    }
    assert homes == set(BY_HOME) - {("dispatch", "ceiling")}


def test_no_two_settings_share_a_name():
    names = [name for setting in SETTINGS for name in (setting.name, *setting.gym, setting.short) if name]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("flat", "problem"),
    [
        ({"concurrency": 3.9}, "concurrency: needs a whole number, not 3.9"),
        ({"concurrency": "3"}, "concurrency: needs a whole number, not '3'"),
        ({"concurrency": True}, "concurrency: needs a whole number, not true"),
        ({"concurrency": 0}, "concurrency: must be at least 1, not 0"),
        ({"resume": "false"}, "resume: needs one of auto, never, must; not 'false'"),
        ({"interleave_repeats": "false"}, "interleave_repeats: needs true or false, not 'false'"),
        ({"interleave_repeats": 1}, "interleave_repeats: needs true or false, not 1"),
        ({"row_timeout": "3"}, f"row_timeout: {DURATION}, not '3'"),
        ({"row_timeout": False}, f"row_timeout: {DURATION}, not 'false'"),
        ({"row_timeout": math.nan}, "row_timeout: must be a duration above 0, not nan"),
        ({"max_reply_bytes": 2**30 + 1}, "max_reply_bytes: must be at most 1073741824, not 1073741825"),
        ({"max_reply_bytes": "2GiB"}, "max_reply_bytes: must be at most 1073741824, not 2147483648"),
        ({"max_reply_bytes": 0}, "max_reply_bytes: must be at least 1, not 0"),
        ({"input": None}, "input: needs a path as text, not null"),
        ({"model": 5}, "model: needs text, not 5"),
        ({"model": " "}, "model: is empty"),
        ({"fan_out": {"a": []}},
         "fan_out.a: is an empty list, which would drop every row of 'a'; leave it out instead"),
        ({"fan_out": {"a": ["x", "y", "x"]}}, "fan_out.a: lists x more than once"),
        ({"fan_out": {"a": "xy"}}, "fan_out.a: needs a list, not 'xy'"),
        ({"fan_out": {"a": ["x", None]}}, "fan_out.a[1]: needs text, not null"),
        ({"num_repeats": 0}, "num_repeats: must be at least 1, not 0"),
        ({"num_repeats": {"a": 2, "b": 0}}, "num_repeats.b: must be at least 1, not 0"),
        ({"agent_map": {"a": None}}, "agent_map.a: needs text, not null"),
        ({"agent": "x", "agent_map": {"_default": "y"}},
         "agent_map._default: contradicts agent; give one of them"),
        ({"top_p": 2}, "top_p: needs a number from 0 to 1, not 2"),
        ({"responses_create_params": {"temperature": "hot"}},
         "responses_create_params.temperature: needs a number of at least 0, not 'hot'"),
        ({"responses_create_params": {"x": math.inf}},
         "responses_create_params.x: holds what JSON cannot say: inf"),
        ({"head_server": {"host": None}}, "head_server.host: needs a host name, not null"),
        ({"head_server": {"port": "1"}}, "head_server.port: needs a port number, not '1'"),
        ({"grace": 5, "participants": ["model=http://m:1"]},
         "grace, participants: needs --checkpoint-dir, the directory that checkpoints are kept in"),
        ({"checkpoint_dir": "ck\udcff"},
         "checkpoint_dir: its path is no UTF-8, in which servers are told of it; rename it"),
        ({"environment_routing_mode": "legacy"},
         "environment_routing_mode: legacy needs environment_server_name, the server of all flat rows"),
        ({"environment_routing_mode": "taskset"},
         "environment_routing_mode: taskset needs environment_server_routes, {taskset: server}"),
        ({"head_server": "http://h:1", "environment_url": "http://e:1"},
         "head_server and environment_url: give one of them"),
        ({"overwrite": True, "resume": "must"},
         "overwrite starts afresh, but resume must continue; give one of them"),
        ({"output": "in.jsonl"}, "output: is the input file itself"),
        ({"concurency": 1}, "concurency: is no setting; did you mean concurrency?"),
        ({"progress": "loud"}, "progress: needs one of auto, rich, plain, json, none; not 'loud'"),
        ({"accept_drift": ["input", 1]},
         f"accept_drift[1]: needs one of {', '.join(get_args(settings.DriftField))}; not 1"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_in_words(flat, problem):
    assert problems(flat) == (problem,)


def test_a_participant_without_an_address_is_named_and_never_the_text_none():
    found = problems(participants=[{"kind": "environment", "url": None}])
    assert found[0] == "participants[0].url: needs a URL as text, not null"


def test_an_exit_code_is_not_zero():
    assert problems(preempt_exit_code=0)[0] == "preempt_exit_code: must be at least 1, not 0"


def test_participants_are_said_in_two_ways():
    said = [{"kind": "environment", "url": "http://e:1"}, "model=http://m:1"]
    participants = [("environment", "http://e:1"), ("model", "http://m:1")]
    value, problems = judge(Given(said, "participants", ""), kinds.Participants)
    assert ([(one.kind, one.url) for one in value], problems) == (participants, ())


def test_all_problems_are_told_at_once():
    found = problems({"input": None, "concurrency": 0, "resume": "no", "unheard_of": 1, "fan_out": {"a": []}})
    assert len(found) == 5


def test_both_files_are_asked_for_at_once():
    with pytest.raises(ConfigError) as refusal:
        load_config({})
    assert refusal.value.problems == (
        "input: is missing; give -i/--input FILE",
        "output: is missing; give -o/--output FILE",
    )


@pytest.mark.parametrize(
    "key",
    [
        "observability_enabled",
        "model_call_capture_dir",
        "retry_invalid_judge_responses",
        "rollout_collection_driver",
    ],
)
def test_what_would_change_records_and_is_not_supported_is_refused(key):
    assert "is not supported" in problems({key: "yes"})[0]
    for off in (None, False):
        load_config({**FILES, key: off})


def test_token_capture_may_be_there_as_long_as_it_is_off():
    load_config({**FILES, "token_id_capture": {"enabled": False, "directory": "x"}})
    assert "is not supported" in problems(token_id_capture={"enabled": True})[0]


def test_failures_always_go_to_the_sidecar():
    load_config({**FILES, "route_failures_to_sidecar": True})
    assert "always" in problems(route_failures_to_sidecar=False)[0]


def test_a_key_in_the_settings_is_refused_and_not_repeated():
    (problem,) = problems(policy_api_key="hush")
    assert "--model-api-key-file" in problem
    assert "hush" not in problem


def test_what_gym_says_with_null_is_the_default():
    nulls = dict.fromkeys(["num_repeats", "limit", "agent_name", "agent_map", "num_samples_in_parallel"])
    assert load_config({**FILES, **nulls}) == load_config(FILES)


def test_gyms_cap_on_resident_tasks_caps_concurrency():
    assert load_config({**FILES, "max_resident_rollout_tasks": 64}).dispatch.concurrency == 64
    both = {"max_resident_rollout_tasks": 64, "concurrency": 8}
    assert load_config({**FILES, **both}).dispatch.concurrency == 8


def test_overwrite_alone_starts_afresh():
    config = resolve([from_map(FILES), command_line(overwrite="true")]).config
    assert config.output.resume == "never"


def test_the_command_line_wins_over_the_environment_and_that_over_the_file():
    file = from_map({**FILES, "concurrency": 1, "max_attempts": 1, "limit": 1}, "in run.toml")
    environment = from_environment({"TRIOCOLLECT_CONCURRENCY": "2", "TRIOCOLLECT_MAX_ATTEMPTS": "2"})
    resolved = resolve([file, environment, command_line(concurrency="3")])
    assert resolved.config.dispatch.concurrency == 3
    assert resolved.config.dispatch.max_attempts == 2
    assert resolved.config.input.limit == 1
    assert resolved.origins["concurrency"] == ("--concurrency (command line)",)
    assert resolved.origins["max_attempts"] == ("TRIOCOLLECT_MAX_ATTEMPTS (environment)",)
    assert resolved.origins["limit"] == ("limit in run.toml",)


def test_maps_of_several_places_are_put_together_key_by_key():
    file = from_map({**FILES, "agent_map": {"a": "x", "_default": "y"}, "temperature": 1}, "in f")
    resolved = resolve([file, command_line(agent="z", max_output_tokens="9", agent_map="{b: w}")])
    assert resolved.config.input.agent_map == {"a": "x", "_default": "z", "b": "w"}
    assert resolved.config.input.responses_create_params == {"temperature": 1, "max_output_tokens": 9}


def test_each_problem_says_where_its_value_came_from():
    sources = [
        from_map({**FILES, "limit": "x"}, "in run.toml"),
        from_environment({"TRIOCOLLECT_ROW_TIMEOUT": "soon"}),
        command_line(concurrency="many"),
    ]
    with pytest.raises(ConfigError) as refusal:
        resolve(sources)
    starts = {problem.split(":")[0] for problem in refusal.value.problems}
    assert starts == {
        "limit in run.toml",
        "TRIOCOLLECT_ROW_TIMEOUT (environment)",
        "--concurrency (command line)",
    }


def test_a_problem_in_a_map_of_two_places_names_the_place_at_fault():
    with pytest.raises(ConfigError) as refusal:
        resolve([from_map({**FILES, "temperature": 1}, "in f"), command_line(top_p="7")])
    assert refusal.value.problems == ("--top-p (command line): needs a number from 0 to 1, not 7",)


@pytest.mark.parametrize(
    ("name", "text", "home", "value"),
    [
        ("num_repeats", "4", ("input", "num_repeats"), 4),
        ("num_repeats", "{a: 2, _default: 1}", ("input", "num_repeats"), {"a": 2, "_default": 1}),
        ("fan_out", "{a: [x, y]}", ("input", "fan_out"), {"a": ("x", "y")}),
        ("interleave_repeats", "yes", ("input", "interleave_repeats"), True),
        ("limit", "none", ("input", "limit"), None),
        ("temperature", "0.2", ("input", "responses_create_params"), {"temperature": 0.2}),
        ("accept_drift", "input,limit", ("output", "accept_drift"), frozenset({"input", "limit"})),
        ("count_failure_classes_as_zero", "[a, b]", ("output", "count_failure_classes_as_zero"), ("a", "b")),
        ("row_timeout", "15m", ("dispatch", "row_timeout_s"), 900.0),
        ("max_reply_bytes", "1GiB", ("dispatch", "max_reply_bytes"), 1 << 30),
        ("model", "null", ("servers", "model"), "null"),
    ],
)
def test_text_of_the_environment_is_read_by_what_the_setting_is(name, text, home, value):
    config = resolve([from_map(FILES), from_environment({PREFIX + name.upper(): text})]).config
    assert getattr(getattr(config, home[0]), home[1]) == value


def test_a_misspelt_variable_is_noted_and_an_empty_one_is_unset():
    resolved = resolve(
        [from_map(FILES), from_environment({"TRIOCOLLECT_LIMTI": "5", "TRIOCOLLECT_MODEL": ""})]
    )
    assert resolved.warnings == ("TRIOCOLLECT_LIMTI (environment): is no setting; did you mean limit?",)
    assert resolved.config.servers.model is None


def test_the_same_thing_said_twice_is_fine_and_two_things_are_not():
    twice = Origin(
        (
            ("limit", Given(5, "+limit", "(command line)")),
            ("limit", Given("6", "--limit", "(command line)", text=True)),
        )
    )
    with pytest.raises(ConfigError, match="contradicts"):
        resolve([from_map(FILES), twice])
