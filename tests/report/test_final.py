"""The end of a run, as people read it."""

import msgspec

from triocollect.report.final import render
from triocollect.report.run_report import Checkpoints, Continued, Paths, Report

COMPLETE = Report(
    run="r1",
    ending="complete",
    expected=20,
    succeeded=18,
    failed=2,
    left=0,
    succeeded_now=12,
    failed_now=2,
    sends=15,
    retried=1,
    failures_by_class={"timeout_exceeded": 1, "agent_run_error": 1},
    failure_examples={"agent_run_error": "HTTP 500 from http://h/run"},
    exhausted=1,
    mean_reward=0.5,
    rewards=12,
    reward_interval=(0.25, 0.75),
    damaged=0,
    notes=(),
    seconds=3723.4,
    paths=Paths(
        output="out/rollouts.jsonl",
        failures="out/rollouts_failures.jsonl",
        materialized="out/rollouts_materialized_inputs.jsonl",
        run="out/rollouts_run.json",
        aggregate="out/rollouts_aggregate_metrics.json",
    ),
)


def test_a_finished_run_says_what_adds_up_and_where_everything_is() -> None:
    assert render(COMPLETE).splitlines() == [
        "Finished rollout collection! Run r1, 1:02:03.",
        "Rows: 20 expected = 18 succeeded + 2 failed + 0 left",
        "This run: 12 succeeded, 2 failed, 15 sent, 1 of them again",
        "Failed: agent_run_error 1, timeout_exceeded 1; see out/rollouts_failures.jsonl",
        "  agent_run_error, for example: HTTP 500 from http://h/run",
        "  1 row failed too often to be tried again; NEMO_GYM_MAX_ROLLOUT_ATTEMPTS (3) raises the limit",
        "  The same command again tries failed rows again, unless their failure is final.",
        "Mean reward: 0.500 (95 %: [0.250, 0.750]) over 12 rollouts",
        "Metrics cover: 18 of 20 rollouts",
        "Fully materialized inputs: out/rollouts_materialized_inputs.jsonl",
        "Rollouts: out/rollouts.jsonl",
        "Aggregate metrics: out/rollouts_aggregate_metrics.json",
    ]


def test_of_an_input_without_rows_no_run_and_no_file_is_named() -> None:
    nothing = Report(
        run=None, ending="complete", expected=0, notes=("no rows",), seconds=0.0, paths=COMPLETE.paths
    )
    assert render(nothing).splitlines() == [
        "Finished rollout collection!",
        "- no rows",
        "Rows: 0 expected = 0 succeeded + 0 failed + 0 left",
        "Nothing was sent, nothing was written.",
    ]


def test_a_file_that_was_not_written_is_not_named() -> None:
    paths = msgspec.structs.replace(COMPLETE.paths, aggregate=None)
    assert "Aggregate" not in render(msgspec.structs.replace(COMPLETE, paths=paths))


def test_results_without_a_reward_are_told_as_that() -> None:
    without = msgspec.structs.replace(COMPLETE, mean_reward=None, rewards=0, reward_interval=None)
    assert "no result has a number as its `reward`" in render(without)
    none_succeeded = msgspec.structs.replace(without, expected=2, succeeded=0)
    assert "reward" not in render(none_succeeded)


def test_rows_left_come_with_how_to_go_on() -> None:
    left = msgspec.structs.replace(COMPLETE, ending="left", succeeded=17, left=1)
    said = render(left).splitlines()
    assert said[0].startswith("Rollout collection stopped with rows left.")
    assert said[-1] == "1 row left. To continue, give the same command again."
    said = render(msgspec.structs.replace(left, other_servers=True)).splitlines()
    assert said[-1] == "1 row left. To continue, start its servers anew and give the same command again."


def test_damage_and_notes_are_not_forgotten() -> None:
    said = render(msgspec.structs.replace(COMPLETE, damaged=3, notes=("drift accepted: model",)))
    assert "Damaged lines: 3" in said
    assert "- drift accepted: model" in said


def test_a_run_that_went_on_says_what_preemptions_cost() -> None:
    continued = Continued(rows=8, anew=2, work_s=73.2, calls_again=3, calls_saved=21, lost_s=9.7)
    said = render(
        msgspec.structs.replace(COMPLETE, continued=continued, checkpoints=Checkpoints(2, 1, 0.44))
    ).splitlines()
    assert said[9:12] == [
        (
            "Cut and continued: 8 rows, with 73 s of work behind them; model calls not made again: 21; "
            "calls under way then, made again: 3"
        ),
        "Cut and started from the input again: 2 rows; lost: 10 s of work",
        "Checkpoints: 2, 1 tried in vain; no row started for 0.4 s in all",
    ]


def test_what_a_checkpoint_kept_of_calls_is_said_as_its_count_since_it_may_be_lost_by_now() -> None:
    continued = Continued(rows=3, anew=0, calls_again=3, calls_cut=2, tokens_kept=90)
    said = render(msgspec.structs.replace(COMPLETE, continued=continued))
    assert "; calls under way then: 3, of which the checkpoint kept 2 with 90 tokens\n" in said


def test_what_is_not_known_of_a_preemption_is_not_said() -> None:
    said = render(msgspec.structs.replace(COMPLETE, continued=Continued(rows=1, anew=0)))
    assert "Cut and continued: 1 row\n" in said
    assert "from the input again" not in said
    assert "Checkpoints" not in said


def test_a_run_that_was_stopped_while_failed_rows_were_tried_again_says_how_to_continue() -> None:
    said = render(msgspec.structs.replace(COMPLETE, ending="preempted")).splitlines()
    assert said[0].startswith("Rollout collection was told to stop, with rows left.")
    assert said[-1] == "Failed rows were not all tried again. To continue, give the same command again."
