"""`run` on the command line: flags, overrides, refusals, the dry run."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.reading.golden import same_as_golden
from tests.reading.runs import write_directory, write_output
from triocollect.__main__ import main
from triocollect.cli.app import COMMANDS

GOLDEN = Path(__file__).with_name("golden")
DURATION = "needs a duration (a number, or text with a unit: 90s, 15m, 2h)"
FLAGS = [
    "--input",
    "--output",
    "--concurrency",
    "--num-repeats",
    "--limit",
    "--agent",
    "--interleave-repeats",
    "--num-repeats-add-seed",
    "--prompt-config",
    "--temperature",
    "--top-p",
    "--max-output-tokens",
    "--config",
    "--head-server",
    "--environment-url",
    "--peer",
    "--participant",
    "--model",
    "--model-url",
    "--model-api-key-file",
    "--workers",
    "--resume",
    "--overwrite",
    "--accept-drift",
    "--wait-for-lock",
    "--max-attempts",
    "--row-timeout",
    "--connect-timeout",
    "--max-reply-bytes",
    "--dispatch-budget",
    "--drain-margin",
    "--longest-first",
    "--require-complete",
    "--disable-aggregation",
    "--checkpoint-dir",
    "--checkpoint-every",
    "--checkpoint-timeout",
    "--grace",
    "--preempt-exit-code",
    "--cuts",
    "--control-token-file",
    "--telemetry",
    "--prometheus",
    "--log-json",
    "--progress",
    "--json",
    "--dry-run",
]


EXPANDING = [  # what changes rows, and where they are written
    *FLAGS[: FLAGS.index("--head-server") + 1],
    *("--overwrite", "--wait-for-lock", "--json", "--dry-run"),
]
EXPANDING.remove("--concurrency")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CONCURRENCY", "CONFIG", "DEBUG"):
        monkeypatch.delenv("TRIOCOLLECT_" + name, raising=False)
    row = {"responses_create_params": {"input": "2+2"}, "agent_ref": {"name": "numeric_agent"}}
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row | {"n": n}) + "\n" for n in range(3)))
    return tmp_path


def key_of(task):
    return {"_ng_task_index": task, "_ng_rollout_index": 0}


def finished(folder, task):
    (folder / "out.jsonl").write_text(json.dumps(key_of(task) | {"reward": 1.0}) + "\n")


def dry(*tokens):
    return main(["run", "-i", "rows.jsonl", "-o", "out.jsonl", "--dry-run", *tokens])


@pytest.mark.parametrize(
    ("command", "flags", "short"),
    [
        ("run", FLAGS, ["-i", "-r", "-n", "-a", "-o", "-c"]),
        ("materialize", EXPANDING, ["-i", "-r", "-n", "-a", "-o"]),
    ],
)
def test_help_lists_exactly_the_promised_flags(command, flags, short, capsys):
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    listed = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", page, re.MULTILINE)
    assert sorted(listed) == sorted(flags)
    assert re.findall(r"^  (-\w), ", page, re.MULTILINE) == short
    assert "Examples:" in page
    assert "Exit codes:" in page


def test_a_dry_run_says_what_would_go_where_and_leaves_nothing(folder, capsys):
    assert dry("-c", "7", "-r", "2") == 0
    told = capsys.readouterr().out
    assert "concurrency = 7  (--concurrency (command line))" in told
    assert "max_attempts" not in told
    assert re.search(r"\d\d others by default; --json tells them all", told)
    assert "Would send 6 rows, 7 at a time" in told
    assert (
        "6 to the embedded deployment (environment server numeric_environment, agent numeric_agent)" in told
    )
    assert [path.name for path in folder.iterdir()] == ["rows.jsonl"]


def test_a_dry_run_counts_what_is_left_of_an_earlier_run_and_changes_nothing(folder, capsys):
    finished(folder, 0)
    with (folder / "out.jsonl").open("a") as output:  # a whole last line without its newline counts, too
        output.write(json.dumps(key_of(1) | {"reward": 0.0}))
    failure = key_of(2) | {"_ng_failure_class": "skipped", "_ng_failure_terminal": True}
    (folder / "out_failures.jsonl").write_text(json.dumps(failure) + "\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert dry("-r", "1") == 0
    told = capsys.readouterr().out
    assert "Would continue the earlier run: 2 rows done, 1 not to be tried again." in told
    assert "Would send 0 rows" in told
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("tokens", [["--resume"], ["--resume", "--limit", "3"]])
def test_a_dry_run_sends_what_a_resumed_run_would(tokens, folder, capsys):
    finished(folder, 0)
    assert dry(*tokens) == 0
    told = capsys.readouterr().out
    assert "resume = must" in told
    assert "Would send 2 rows, 256 at a time:\n  2 to the embedded deployment" in told


def test_a_dry_run_refuses_what_a_run_would(folder, capsys):
    assert dry("--resume") == 4
    assert "nothing to resume" in capsys.readouterr().err
    finished(folder, 0)
    assert dry("--resume=never") == 4
    assert "out.jsonl holds rows of an earlier run" in capsys.readouterr().err
    assert dry("--resume=never", "--overwrite") == 0
    assert "Would delete what an earlier run left in out.jsonl." in capsys.readouterr().out
    (folder / "out_materialized_inputs.jsonl").write_text("{}\n")
    assert dry() == 4
    assert "--accept-drift input" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize("flag", ["--output", "--checkpoint-dir"])
def test_a_run_and_its_dry_run_refuse_a_place_that_cannot_be_written_to(folder, capsys, flag, more):
    (folder / "file").touch()
    named = {"--output": "o.jsonl", flag: "file/x"}
    assert main(["run", "-i", "rows.jsonl", *(word for pair in named.items() for word in pair), *more]) == 2
    assert f"{flag}: cannot write to file/x: " in capsys.readouterr().err


def test_a_repeated_flag_is_named_as_it_was_given(capsys):
    assert dry("--participant", "resorces=http://127.0.0.1:9") == 2
    assert "--participant (command line): needs one of environment" in capsys.readouterr().err


def test_rows_of_a_server_of_ones_own_go_to_it_in_the_embedded_deployment(folder, capsys):
    row = {"responses_create_params": {"input": "x"}, "task_source": "dice"}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n")
    assert dry() == 2
    assert "dice" in capsys.readouterr().err
    assert dry("--peer", "dice=http://127.0.0.1:9311") == 0
    told = capsys.readouterr().out
    assert "1 to the embedded deployment (environment server dice_environment, agent dice_agent)" in told


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["--peer", "dice"], "--peer (command line): needs NAME=URL such as dice=http://"),
        (["--peer", "dice=https://h"], "--peer (command line): dice: servers are at http://HOST:PORT here"),
        (
            ["--peer", "dice=http://h:1", "--peer", "dice=http://h:2"],
            "--peer (command line): dice is given twice",
        ),
        (["--peer", "agent=http://h:1"], "peer agent: a resources server cannot be called so here"),
        (
            ["--peer", "dice=http://h:1", "--head-server", "http://h:2"],
            "is part of the embedded deployment, which --head-server (command line) replaces",
        ),
        (
            ["--workers", "2", "--environment-url", "http://h:2"],
            "--workers (command line): is part of the embedded deployment, which --environment-url",
        ),
        (["--workers", "0"], "--workers (command line): must be"),
    ],
)
def test_a_peer_that_cannot_join_is_refused(tokens, words, capsys):
    assert dry(*tokens) == 2
    assert words in capsys.readouterr().err


def test_a_dry_run_names_the_one_server(capsys):
    assert dry("--environment-url", "http://127.0.0.1:9/") == 0
    assert "3 to http://127.0.0.1:9/run (agent numeric_agent)" in capsys.readouterr().out


def test_flags_and_gyms_overrides_mix(folder, capsys):
    tokens = ["+input_jsonl_fpath=rows.jsonl", "+output_jsonl_fpath=y.jsonl", "++num_samples_in_parallel=8"]
    assert main(["run", *tokens, "--limit", "2", "--dry-run", "--num-repeats-add-seed"]) == 0
    told = capsys.readouterr().out
    assert "Would send 2 rows, 8 at a time" in told
    assert "concurrency = 8  (++num_samples_in_parallel (command line))" in told
    assert "num_repeats_add_seed = true" in told


def test_gyms_long_flags_are_aliases(folder, capsys):
    finished(folder, 0)
    tokens = ["--input-jsonl-fpath", "rows.jsonl", "--output-jsonl-fpath=out.jsonl", "--resume-from-cache"]
    assert main(["run", *tokens, "--dry-run"]) == 0
    assert "resume = must  (--resume-from-cache (command line))" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["--resume", "auto"], "resume = auto"),
        (["--resume=never"], "resume = never"),
        (["+resume_from_cache=false"], "resume = never"),
        (["--interleave-repeats"], "interleave_repeats = true"),
        (["--interleave-repeats=false"], "interleave_repeats = false"),
        (["--accept-drift", "input", "--accept-drift", "limit"], "accept_drift = ["),
        (["+agent_map={_default: numeric_agent}"], "agent_map = {_default: numeric_agent}"),
        (["+responses_create_params.metadata.x=y"], "responses_create_params = {metadata: {x: y}}"),
        (["+dispatch_budget_s=15m"], "dispatch_budget = 900.0"),
    ],
)
def test_a_spelling_means(tokens, said, capsys):
    assert dry(*tokens) == 0
    assert said in capsys.readouterr().out


def test_all_problems_come_at_once_with_where_they_come_from(folder, monkeypatch, capsys):
    (folder / "run.toml").write_text("concurency = 5\nrow_timeout = '3'\n")
    monkeypatch.setenv("TRIOCOLLECT_MAX_ATTEMPTS", "many")
    assert main(["run", "--config", "run.toml", "-c", "3.9", "stray", "+limit=x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "triocollect: stray: neither a flag nor an override (key=value)",
        "triocollect: concurency in run.toml: is no setting; did you mean concurrency?",
        f"triocollect: row_timeout in run.toml: {DURATION}, not '3'",
        "triocollect: TRIOCOLLECT_MAX_ATTEMPTS (environment): needs a whole number, not 'many'",
        "triocollect: --concurrency (command line): needs a whole number, not '3.9'",
        "triocollect: +limit (command line): needs a whole number, not 'x'",
        "triocollect: input: is missing; give -i/--input FILE",
        "triocollect: output: is missing; give -o/--output FILE",
    ]  # fmt: skip


def test_a_key_of_gym_that_nobody_knows_is_noted_and_no_more(capsys):
    assert dry("+unheard_of=1", "+retain_results_in_memory=false") == 0
    assert capsys.readouterr().err.splitlines() == [
        "note: +unheard_of (command line): is no setting",
        "note: +retain_results_in_memory (command line) has no effect: results are never kept in memory",
    ]


@pytest.mark.parametrize(
    "tokens",
    [
        ["policy_api_key=hush"],
        ["--model-api-key", "hush"],
        ["--model-api-key=hush"],
        ["--policy-api-key=hush"],
    ],
)
def test_a_key_on_the_command_line_is_refused_and_never_repeated(tokens, capsys):
    assert dry(*tokens) == 2
    captured = capsys.readouterr()
    assert "--model-api-key-file" in captured.err
    assert "hush" not in captured.err + captured.out


def test_a_near_miss_of_a_setting_among_gyms_overrides_is_a_warning(capsys):
    assert dry("+limt=3") == 0
    assert capsys.readouterr().err == "Warning: +limt (command line): is no setting; did you mean limit?\n"


def test_a_dry_run_is_one_json_object_for_programs(folder, capsys):
    finished(folder, 0)
    assert dry("-c", "7", "--json") == 0
    told = capsys.readouterr()
    assert same_as_golden("dry_run", told.out, GOLDEN)
    assert "Would send 2 rows" in told.err


def test_a_run_that_takes_no_checkpoints_says_what_a_stop_costs(capsys):
    assert (
        main(["run", "-i", "rows.jsonl", "-o", "out.jsonl", "--environment-url", "http://127.0.0.1:9"]) == 3
    )
    told = "without --checkpoint-dir TERM, HUP and Ctrl-C lose the rows in flight\n"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("tokens", [[], ["--checkpoint-dir", "made/too/ckpt"]])
def test_bad_input_is_told_alone_and_leaves_no_folder(folder, capsys, tokens):
    (folder / "bad.jsonl").write_text("{bad\n")
    for name in ("nowhere.jsonl", "bad.jsonl"):
        assert main(["run", "-i", name, "-o", "made/deep/out.jsonl", *tokens]) == 2
        assert capsys.readouterr().err.startswith(f"triocollect: {name}")
    assert sorted(path.name for path in folder.iterdir()) == ["bad.jsonl", "rows.jsonl"]


def test_a_dry_run_says_that_the_input_has_no_rows(folder, capsys):
    (folder / "rows.jsonl").write_text("")
    assert dry() == 0
    assert "note: the input has no rows: rows.jsonl" in capsys.readouterr().out


def test_a_dry_run_says_what_would_go_on_from_a_checkpoint(folder, capsys):
    write_output(folder)
    write_directory(folder / "ckpt")
    (folder / "rows.jsonl").write_text(2 * (folder / "rows.jsonl").read_text())
    assert dry("--checkpoint-dir", "ckpt", "--accept-drift", "input") == 0
    said = "1 would go on from checkpoint c-000002-00000002, 2 would start from their input."
    assert said in capsys.readouterr().out


def test_a_misspelt_flag_gets_a_hint(capsys):
    assert dry("--concurency", "5") == 2
    assert "--concurrency" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["--resume", "maybe"], "--resume (command line): needs one of auto, never, must; not 'maybe'"),
        (["--telemetry", "on"], "--telemetry (command line): needs one of"),
    ],
)
def test_a_wrong_word_behind_a_flag_that_may_stand_alone_is_taken_for_its_value(tokens, words, capsys):
    assert dry(*tokens) == 2
    assert words in capsys.readouterr().err


def test_a_flag_without_its_value_is_a_usage_error(capsys):
    assert main(["run", "-i"]) == 2
    assert "requires an argument" in capsys.readouterr().err


def test_a_flag_given_twice_is_a_usage_error(capsys):
    assert dry("--limit", "1", "--limit", "2") == 2
    assert "--limit" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "materialize"])
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--checkpoint-every", "5m"),
        ("--checkpoint-timeout", "5m"),
        ("--grace", "5m"),
        ("--preempt-exit-code", "75"),
        ("--control-token-file", "token"),
        ("--participant", "environment=http://e:1"),
    ],
)
def test_what_only_checkpoints_need_is_refused_without_a_directory(command, flag, value, folder, capsys):
    assert main([command, "-i", "rows.jsonl", "-o", "out.jsonl", flag, value]) == 2
    assert capsys.readouterr().err.splitlines() == [
        (
            f"triocollect: {flag} (command line): "
            "needs --checkpoint-dir, the directory that checkpoints are kept in"
        )
    ]
    assert [path.name for path in folder.iterdir()] == ["rows.jsonl"]


def test_an_input_that_is_not_there_is_bad_input(capsys):
    assert main(["run", "-i", "nowhere.jsonl", "-o", "out.jsonl", "--dry-run"]) == 2
    assert "nowhere.jsonl" in capsys.readouterr().err


def test_a_row_that_no_server_takes_is_told_before_anything_is_sent(folder, capsys):
    (folder / "rows.jsonl").write_text('{"responses_create_params":{},"agent_ref":{"name":"numric_agent"}}\n')
    assert dry() == 2
    assert "numric_agent" in capsys.readouterr().err


def test_the_command_that_nobody_knows_gets_a_hint(capsys):
    assert main(["runn"]) == 2
    assert "run" in capsys.readouterr().err


def test_without_a_command_the_commands_are_listed(capsys):
    assert main([]) == 0
    listed = re.findall(r"^  ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert [name for name in listed if name != "triocollect"] == [
        "aggregate", "checkpoint", "demo", "fuzz", "gc", "inspect", "materialize", "run", "serve",
        "status", "verify",
    ]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_ends_with_examples_and_exit_codes(command, capsys):
    assert main([command, "--help"]) == 0
    page = capsys.readouterr().out
    assert f"triocollect {command}" in page.partition("Examples:")[2]
    assert "\n  2  " in page.partition("Exit codes:")[2]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("--agent", "\udcff"), "--agent (command line): holds bytes that are not UTF-8"),
        (("--model", "\udcff"), "--model (command line): holds bytes that are not UTF-8"),
        (("+agent_map={a: \udcff}",), "holds bytes that are not UTF-8"),
        (("+responses_create_params.x=\udcff",), "holds bytes that are not UTF-8"),
        (("+skills.path=\udcff",), "not UTF-8"),
        (("--config", "\udcff.toml"), "\\xff.toml: cannot be read"),
        (("+skills.path=" + "a" * 5000,), "skills.path: cannot read"),
        (("--prompt-config", "a" * 5000), "prompt_config: cannot read"),
        (("-r", "4294967295"), "must be at most 1000000"),
        (("+num_repeats={_default: 4294967296}",), "must be at most 1000000"),
    ],
)
def test_what_no_run_can_take_is_a_usage_error(tokens, words, capsys):
    assert dry(*tokens) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("tokens", [("--config", "pipe.yaml"), ("--prompt-config", "pipe.yaml")])
@pytest.mark.parametrize("device", [None, "/dev/zero"])
def test_a_pipe_or_a_device_is_no_settings_file(folder, tokens, device, capsys):
    if device is None:
        os.mkfifo(folder / "pipe.yaml")
    else:
        (folder / "pipe.yaml").symlink_to(device)
    assert dry(*tokens) == 2
    assert "not a regular file" in capsys.readouterr().err


def test_file_names_that_are_not_utf_8_are_told_spelled_out(folder, capsys):
    (folder / "rows.jsonl").rename(folder / "r\udcff.jsonl")
    tokens = ["-i", "r\udcff.jsonl", "-o", "o\udcff.jsonl", "--environment-url", "http://127.0.0.1:1"]
    tokens += ["--max-attempts", "1"]
    assert main(["run", *tokens, "--json", "--progress", "json"]) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["paths"]["output"] == "o\\xff.jsonl"
    assert all(json.loads(line) for line in told.err.splitlines() if line.startswith("{"))
    assert "Rollouts: o\\xff.jsonl" in told.err
    assert main(["status", "o\udcff.jsonl", "--json"]) == 0
    assert main(["aggregate", "o\udcff.jsonl", "--json"]) == 0
    assert capsys.readouterr().out.count("o\\\\xff.jsonl") >= 2


@pytest.mark.parametrize("command", ["status", "aggregate"])
def test_a_name_too_long_for_a_file_is_a_usage_error(command, capsys):
    assert main([command, "a" * 5000]) == 2
    assert "File name too long" in capsys.readouterr().err


def test_an_environment_variable_that_is_no_setting_is_noted(monkeypatch, capsys):
    monkeypatch.setenv("TRIOCOLLECT_FOO", "x")
    assert dry() == 0
    assert "note: TRIOCOLLECT_FOO (environment): is no setting" in capsys.readouterr().err
