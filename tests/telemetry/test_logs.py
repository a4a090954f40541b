"""A log of JSON lines: every line says whose it is, and a disk that is full ends the log alone."""

import logging
import os
from pathlib import Path

import msgspec
import pytest

from tests.checkpoint.world import world
from triocollect.errors import UsageError
from triocollect.events import Note, RowFailed, RowLeft, RowSent
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.telemetry import bind, bind_episode, during
from triocollect.telemetry.logs import JsonLog, Line, Records, Whose, bound
from triocollect.telemetry.story import Story

KEY, EPISODE = RowKey(3, 0), EpisodeId("3-0", 2)


@pytest.fixture
def log(tmp_path):
    with bound(Whose()):
        one = JsonLog(tmp_path / "log.jsonl", "collector", pytest.fail)
        yield one
        one.close()


@pytest.fixture
def lines(tmp_path):
    def read():
        data = (tmp_path / "log.jsonl").read_bytes().splitlines()
        assert all(msgspec.json.decode(line).keys() == set(Line.__struct_fields__) for line in data)
        return [msgspec.json.decode(line, type=Line) for line in data]

    return read


def whose(line):
    return (line.run, line.epoch, line.operation, line.rollout_id, line.attempt)


def test_a_line_has_every_field_also_where_there_is_nothing_to_say(log, lines):
    log.write("note", "hello")
    [line] = lines()
    assert whose(line) == (None,) * 5
    assert (line.level, line.service, line.message) == ("info", "collector", "hello")
    assert line.time.endswith("+00:00")


def test_what_is_bound_is_on_every_line_until_its_end(log, lines):
    bind("r1", 4)
    with during(7):
        log.write("note", "in it")
    log.write("note", "after it")
    bind_episode(EPISODE)
    log.write("note", "of a rollout")
    assert [whose(line)[:3] for line in lines()] == [("r1", 4, 7), ("r1", 4, None), ("r1", 4, None)]
    assert whose(lines()[2])[3:] == ("3-0", 2)


def test_a_row_names_its_attempt_whatever_is_bound(log, lines):
    bind("r1", 4)
    story = Story(log)
    story.listen(RowSent(KEY, EPISODE, "a"))
    story.listen(RowFailed(KEY, EPISODE, "a", "agent_run_error", "it broke", 1.0))
    story.listen(RowLeft(KEY, "nothing is to be written", EPISODE.rollout_id, EPISODE.attempt))
    story.listen(RowLeft(KEY, "it is not sent again", EPISODE.rollout_id))
    story.listen(Note("careful", "warning"))
    sent, failed, left, not_sent, note = lines()
    assert whose(sent) == whose(failed) == whose(left) == ("r1", 4, None, "3-0", 2)
    assert whose(not_sent) == ("r1", 4, None, "3-0", None)
    assert (failed.level, note.level, note.message) == ("warning", "warning", "careful")
    assert "it broke" in failed.message


async def test_a_checkpoint_says_its_operation_on_all_its_lines(tmp_path, autojump_clock, log, lines):
    async with world(tmp_path / "ckpt") as here:
        story = Story(log)
        here.fly(0)
        await here.take()
        for event in here.events:
            story.listen(event)
    assert [(line.event, line.operation) for line in lines() if line.event != "note"] == [
        ("checkpoint_started", 1),
        ("checkpoint_ended", 1),
    ]


def test_what_logging_is_told_becomes_a_line(log, lines):
    logger = logging.getLogger("tests.telemetry")
    logger.propagate = False
    handler = Records(log)
    logger.addHandler(handler)
    with bound(Whose("r1", 2, None, "3-0", 1)):
        logger.warning("%s was not closed", "3-0-a1")
        logger.warning("%d", "no number")
    logger.removeHandler(handler)
    first, second = lines()
    assert (first.message, first.level, first.event) == (
        "3-0-a1 was not closed",
        "warning",
        "tests.telemetry",
    )
    assert whose(first) == ("r1", 2, None, "3-0", 1)
    assert second.message == "%d"


def test_a_disk_that_is_full_ends_the_log_and_nothing_else_and_is_told_once():
    told = []
    log = JsonLog(Path("/dev/full"), "collector", told.append)
    for _ in range(3):
        log.write("note", "hello")
    assert told == ["the log /dev/full ends here, and nothing else does: No space left on device"]


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="nobody reads from this pipe"):
        JsonLog(tmp_path / "pipe", "collector", pytest.fail)


def test_a_reader_that_is_too_slow_ends_the_log_and_nothing_else(tmp_path):
    told = []
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    log = JsonLog(tmp_path / "pipe", "collector", told.append)
    for _ in range(1000):
        log.write("note", "a" * 1000)
    os.close(reader)
    [words] = told
    assert words.endswith("whoever reads it is too slow")


def test_two_writers_of_one_file_mix_no_lines(tmp_path, lines, log):
    other = JsonLog(tmp_path / "log.jsonl", "environment", pytest.fail)
    for number in range(50):
        log.write("note", f"a{number}" * 100)
        other.write("note", f"b{number}" * 100)
    other.close()
    assert len(lines()) == 100
