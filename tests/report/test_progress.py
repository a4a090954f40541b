"""What a user sees while rows run, with time simulated."""

import io
import json
import logging

import pytest
import trio
from trio.testing import MockClock

from triocollect.events import (
    CheckpointEnded,
    Note,
    Resumed,
    RowFailed,
    RowLeft,
    RowRetried,
    RowSent,
    RowSucceeded,
    RunStarted,
)
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.report.progress import Progress, warnings_as_notes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def started(rows: int, *, done: int = 0, given_up: int = 0, resumed: Resumed | None = None) -> RunStarted:
    return RunStarted("r1", rows, done, given_up, concurrency=4, resumed=resumed)


def sent(task: int) -> RowSent:
    return RowSent(RowKey(task, 0), EpisodeId(f"{task}-0"), "agent")


def succeeded(task: int, reward: float | None = 1.0, seconds: float = 1.0) -> RowSucceeded:
    return RowSucceeded(RowKey(task, 0), EpisodeId(f"{task}-0"), "agent", reward, seconds)


def failed(task: int, failure_class: str = "agent_run_error") -> RowFailed:
    return RowFailed(RowKey(task, 0), EpisodeId(f"{task}-0"), "agent", failure_class, "broken", 1.0)


def a_progress(style: str, stream: io.StringIO) -> tuple[Progress, Clock]:
    clock = Clock()
    return Progress(style, stream, clock=clock), clock


def test_plain_lines_say_what_scripts_look_for() -> None:
    stream = io.StringIO()
    progress, clock = a_progress("plain", stream)
    progress.listen(started(12))
    for task in range(12):
        progress.listen(sent(task))
    clock.now += 65
    progress.listen(succeeded(0))
    progress.draw()
    assert "Finished 1 / 12 rollouts (8%) in 0:01:05 (0.92 rollouts/min)." in stream.getvalue()


def test_a_resumed_run_opens_with_gym_s_block() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("plain", stream)
    progress.listen(
        started(
            20,
            done=6,
            given_up=2,
            resumed=Resumed(failures=5, failed=3, terminal=1, exhausted=1, max_attempts=3),
        )
    )
    assert stream.getvalue().splitlines()[:7] == [
        "Resumed from cache. Found:",
        "- 20 original input rows",
        "- 6 rows already done (in main jsonl)",
        "- 5 prior failure attempts (3 unique tasks) in sidecar",
        "- 1 sidecar-terminal (for example skipped) → not retried",
        "- 1 hit max_attempts=3 → not retried",
        "- 12 rows that still need to be run",
    ]


def test_a_big_run_prints_about_a_hundred_lines_and_not_one_per_row() -> None:
    stream = io.StringIO()
    progress, clock = a_progress("plain", stream)
    progress.listen(started(10_000))
    for task in range(10_000):
        progress.listen(sent(task))
        progress.listen(succeeded(task))
        clock.now += 0.001
        progress.draw()
    progress.close()
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("Finished")]
    assert 100 <= len(lines) <= 102
    assert "Finished 9950 / 10000 rollouts (99.5%)" in lines[-2]
    assert "Finished 10000 / 10000 rollouts (100%)" in lines[-1]


async def test_a_run_in_which_nothing_ends_still_says_every_half_minute_that_it_lives(
    autojump_clock: MockClock,
) -> None:
    stream = io.StringIO()
    progress = Progress("plain", stream, clock=trio.current_time)
    progress.listen(started(3))
    progress.listen(sent(0))
    with trio.move_on_after(100):
        async with trio.open_nursery() as nursery:
            await nursery.start(progress.run)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("Finished")]
    assert len(lines) == 3
    assert "Finished 0 / 3 rollouts (0%)" in lines[0]
    assert "In flight 1, left 2, ETA -" in lines[0]


def test_the_last_line_comes_once_however_often_it_is_closed() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("plain", stream)
    progress.listen(started(1))
    progress.listen(sent(0))
    progress.listen(succeeded(0))
    progress.close()
    progress.listen(Note("too late"))
    progress.close()
    assert stream.getvalue().count("Finished 1 / 1 rollouts (100%)") == 1
    assert "too late" not in stream.getvalue()


def test_failures_are_told_by_class_and_repeats_by_number() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("plain", stream)
    progress.listen(started(4))
    for task, name in enumerate(["agent_run_error", "timeout_exceeded", "agent_run_error"]):
        progress.listen(sent(task))
        progress.listen(failed(task, name))
    progress.listen(sent(3))
    progress.listen(RowRetried(RowKey(3, 0), EpisodeId("3-0"), "refused", 0.5))
    assert progress.tally.eta(9.0) is None, "all that is left waits to be sent again"
    assert progress.tally.retried == 0, "it has not been sent again"
    progress.listen(sent(3))
    assert progress.tally.eta(9.0) is not None
    progress.draw()
    assert "failed 3 (agent_run_error 2, timeout_exceeded 1), retried 1" in stream.getvalue()


def test_the_mean_reward_comes_with_its_interval_and_what_is_still_open() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("plain", stream)
    progress.listen(started(20))
    for task in range(10):
        progress.listen(sent(task))
        progress.listen(succeeded(task, reward=float(task % 2)))
    progress.draw()
    assert "mean reward 0.500 (95 %: [0.123, 0.877])" in stream.getvalue()
    assert "within [0.250, 0.750]" in stream.getvalue()


def test_few_tasks_have_a_mean_and_no_interval_that_reaches_beyond_all_rewards() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("plain", stream)
    progress.listen(started(18))
    for task in range(9):
        progress.listen(sent(task))
        progress.listen(succeeded(task, reward=float(task % 2)))
    progress.draw()
    assert "mean reward 0.444, unfinished" in stream.getvalue()


def test_nothing_is_said_to_be_queried_where_no_row_is_left() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("plain", stream)
    progress.listen(started(4, done=4))
    progress.close()
    assert stream.getvalue() == ""


def test_rows_without_a_line_are_finished_if_they_ran_and_left_if_they_did_not() -> None:
    progress, _ = a_progress("none", io.StringIO())
    progress.listen(started(3))
    progress.listen(sent(0))
    progress.listen(RowLeft(RowKey(0, 0), "the server said so"))
    progress.listen(RowLeft(RowKey(1, 0), "stopped"))
    assert (progress.tally.finished, progress.tally.queued) == (1, 2)


def test_json_lines_are_the_events_in_order() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("json", stream)
    progress.listen(started(1))
    progress.listen(sent(0))
    progress.listen(succeeded(0, reward=0.5))
    progress.draw()
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["type"] for event in told] == ["run_started", "row_sent", "row_succeeded"]
    assert told[2]["key"] == [0, 0]
    assert told[2]["reward"] == 0.5


def test_json_lines_wait_in_bounded_memory_when_nobody_draws() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("json", stream)
    for task in range(1500):
        progress.listen(sent(task))
    assert len(stream.getvalue().splitlines()) == 1000


def test_the_panel_shows_counts_and_leaves_one_plain_line() -> None:
    stream = Terminal()
    progress, clock = a_progress("rich", stream)
    progress.listen(Note("[brackets] are no markup", "warning"))
    progress.listen(started(10, done=2))
    for task in range(3):
        progress.listen(sent(task))
    progress.listen(succeeded(0))
    clock.now += 60
    progress.draw()
    drawn = stream.getvalue()
    assert "[brackets] are no markup" in drawn
    assert "1 done, 2 in flight, 5 left (and 2 of earlier runs)" in drawn
    assert "1.0 rows/min" in drawn
    progress.close()
    assert "Finished 1 / 8 rollouts (12%) in 0:01:00" in stream.getvalue()


def test_a_terminal_gets_the_panel_and_a_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        progress, _ = a_progress("auto", stream)
        progress.listen(started(2))
        progress.listen(sent(0))
        progress.listen(succeeded(0))
        progress.draw()
    assert "╭" in terminal.getvalue()
    assert "Finished 1 / 2" in pipe.getvalue()


PUBLISHED = CheckpointOutcome(operation=1, checkpoint_id="c-1", published=True, continued=3, work_s=73.2)
IN_VAIN = CheckpointOutcome(operation=2, checkpoint_id="c-2", published=False, reason="the disk is full")


@pytest.mark.parametrize("style", ["plain", "rich"])
def test_the_last_checkpoint_is_shown_with_its_age_and_what_it_would_save(style: str) -> None:
    stream = Terminal()
    progress, clock = a_progress(style, stream)
    progress.listen(started(5))
    for task in range(5):
        progress.listen(sent(task))
    clock.now += 30
    progress.listen(CheckpointEnded(PUBLISHED, tuple(RowKey(task, 0) for task in range(4))))
    clock.now += 65
    progress.listen(CheckpointEnded(IN_VAIN))
    progress.listen(succeeded(0))
    progress.listen(RowRetried(RowKey(1, 0), EpisodeId("1-0"), "refused", 0.5))
    progress.draw()
    assert "0:01:05 ago, would save 3 rows with 90 s of work" in stream.getvalue()


@pytest.mark.parametrize("style", ["plain", "rich"])
def test_a_checkpoint_saves_nothing_of_rows_that_have_ended_since(style: str) -> None:
    stream = Terminal()
    progress, clock = a_progress(style, stream)
    progress.listen(started(5))
    for task in range(4):
        progress.listen(sent(task))
    progress.listen(CheckpointEnded(PUBLISHED, tuple(RowKey(task, 0) for task in range(3))))
    progress.listen(succeeded(0))
    progress.listen(failed(1))
    progress.listen(RowLeft(RowKey(2, 0), "the server said so"))
    clock.now += 65
    progress.draw()
    assert "0:01:05 ago, would save 0 rows with 0 s of work" in stream.getvalue()


def test_programs_are_told_what_came_of_every_try() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("json", stream)
    progress.listen(CheckpointEnded(PUBLISHED))
    progress.listen(CheckpointEnded(IN_VAIN))
    progress.draw()
    first, second = (json.loads(line)["outcome"] for line in stream.getvalue().splitlines())
    assert (first["continued"], first["work_s"]) == (3, 73.2)
    assert (second["published"], second["reason"]) == (False, "the disk is full")


@pytest.mark.parametrize("style", ["plain", "json", "rich"])
def test_a_terminal_that_goes_away_does_not_end_the_run(style: str) -> None:
    stream = io.StringIO()
    progress, _ = a_progress(style, stream)
    progress.listen(started(2))
    stream.close()
    for task in range(2):
        progress.listen(sent(task))
        progress.listen(succeeded(task))
        progress.draw()
    progress.listen(Note("nobody reads this"))
    progress.close()
    assert progress.tally.finished == 2


class Gone(Terminal):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize("style", ["plain", "json", "rich", "auto"])
def test_a_reader_that_goes_away_silences_the_display_and_nothing_else(style: str) -> None:
    progress, _ = a_progress(style, Gone())
    progress.listen(Note("nobody reads this"))
    progress.listen(started(1))
    progress.listen(sent(0))
    progress.draw()
    progress.listen(succeeded(0))
    progress.close()
    assert progress.tally.finished == 1


@pytest.mark.parametrize("style", ["plain", "json", "rich", "auto", "none"])
def test_without_a_stream_nothing_is_shown(style: str) -> None:
    progress = Progress(style, None)
    progress.listen(started(1))
    progress.listen(Note("nobody reads this"))
    progress.draw()
    progress.close()
    assert progress.tally.expected == 1


def test_nothing_is_shown_when_nothing_is_wanted() -> None:
    stream = io.StringIO()
    progress, _ = a_progress("none", stream)
    progress.listen(started(1))
    progress.listen(Note("hello"))
    progress.close()
    assert stream.getvalue() == ""


def test_memory_follows_rows_in_flight() -> None:
    progress, _ = a_progress("plain", io.StringIO())
    progress.listen(started(100_000))
    for task in range(5000):
        progress.listen(sent(task))
        progress.listen(succeeded(task))
    assert progress.tally.flying == {}
    assert len(progress.tally.durations.values) == 512
    assert len(progress.tally.rewards.repeats) == 1024


def test_what_is_logged_is_a_note_among_events_that_programs_read():
    stream = io.StringIO()
    progress, log = Progress("json", stream), logging.getLogger("triocollect.deployment")
    with warnings_as_notes("json", progress.listen):
        log.warning("waiting for %s", "a server")
    progress.close()
    assert json.loads(stream.getvalue()) == {
        "type": "note",
        "text": "waiting for a server",
        "level": "warning",
    }


def test_a_message_that_its_arguments_do_not_fit_fails_nobody(monkeypatch):
    ours, told = logging.getLogger("triocollect"), []
    monkeypatch.setattr(ours, "propagate", False)  # pytest listens as well, and does fail
    unfit = {"name": ours.name, "levelno": logging.WARNING, "msg": "waiting for %s and %s", "args": ("one",)}
    with warnings_as_notes("json", told.append):
        ours.handle(logging.makeLogRecord(unfit))
    assert told == [Note("waiting for %s and %s", "warning")]
