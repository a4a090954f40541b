"""Attempts only rise, over all runs of a checkpoint directory, whatever rows each of them had."""

import json
from pathlib import Path

import pytest

from triocollect.checkpoint.directory import DISPATCHED
from triocollect.checkpoint.dispatch_log import start_dispatched
from triocollect.checkpoint.plan import plan
from triocollect.checkpoint.sent import read_dispatched
from triocollect.collector.afresh import keep_attempts
from triocollect.collector.continuing import continued_of
from triocollect.collector.earlier import Files
from triocollect.collector.history import history_of
from triocollect.collector.resume import Survey
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import DispatchHeader
from triocollect.records.output import scan_output
from triocollect.records.sidecar import scan_sidecar
from triocollect.report.run_report import Continued
from triocollect.rows.types import Row

NEXT = DispatchHeader("4f2c", 1, 0, reserved=0, output="next")


class Folder:
    """The files of an output beside a checkpoint directory."""

    def __init__(self, root: Path):
        self.root, self.log, self.files = root, root / DISPATCHED, Files(root / "out.jsonl")

    def write(self, path: Path, *records):
        path.write_text("".join(json.dumps(record) + "\n" for record in records))

    def done(self, *rows):
        self.write(self.files.output, *(record(task, attempt) for task, attempt in rows))

    def begin(self, rows, *, most=3, output="mine"):
        """The start of a run with these rows: what it knows, and the log that it goes on with."""
        survey = Survey(scan_output(self.files.output), scan_sidecar(self.files.failures), most)
        sent = read_dispatched(self.log)
        senders = sent.of_others(output)
        history = history_of(map(row, rows), survey, sent.beside(output), [], senders)
        header = DispatchHeader("4f2c", 1, 0, reserved=0, used=sent.used, output=output)
        return history, start_dispatched(self.log, header, history.attempts(), history.answered, senders)


def record(task, attempt, **more):
    return {"_ng_task_index": task, "_ng_rollout_index": 0, "_ng_attempt_index": attempt, "reward": 1, **more}


def row(task):
    return Row(RowKey(task, 0), b"{}", None, None, None, None, None, None, None)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_a_run_with_fewer_rows_keeps_the_attempts_of_the_others(folder):
    _, log = folder.begin(range(3))
    log.append([EpisodeId("2-0", 0), EpisodeId("2-0", 1)])
    log.close()
    folder.begin(range(1))[1].close()
    assert folder.begin(range(3))[0].highest() == {RowKey(2, 0): 1}


def test_a_row_that_failed_for_good_by_the_settings_of_one_run_keeps_its_attempts_for_the_next(folder):
    _, log = folder.begin(range(2))
    log.append([EpisodeId("0-0", 0), EpisodeId("0-0", 1)])
    log.close()
    folder.write(folder.files.failures, record(0, 0, _ng_failure_class="skipped"))
    history, log = folder.begin(range(2), most=1)
    log.close()
    assert history.highest() == {}
    assert folder.begin(range(2), most=2)[0].highest() == {RowKey(0, 0): 1}


def test_the_log_keeps_nothing_of_rows_that_have_their_result(folder):
    _, log = folder.begin(range(3))
    log.append([EpisodeId("0-0", 0), EpisodeId("1-0", 0)])
    log.answered(EpisodeId("0-0", 0))
    log.close()
    folder.done((0, 0))
    history, log = folder.begin(range(3))
    log.close()
    assert (history.attempts(), dict(history.answered)) == ({"1-0": 0}, {})


def test_what_was_answered_and_written_nowhere_is_told_on_from_run_to_run(folder):
    _, log = folder.begin(range(1))
    log.append([EpisodeId("0-0", 0)])
    log.answered(EpisodeId("0-0", 0))
    log.close()
    for _ in range(2):
        history, log = folder.begin(range(1))
        log.close()
        assert history.tried["0-0"].replied == history.tried["0-0"].highest == 0


@pytest.mark.parametrize("ends", ["end", "close"])
def test_another_output_starts_above_what_one_used_also_where_no_line_names_it_any_more(folder, ends):
    _, log = folder.begin(range(2), output="mine")
    log.append([EpisodeId("0-0", attempt) for attempt in range(6)])
    log.append([EpisodeId("1-0", 0)])
    getattr(log, ends)()
    folder.done((0, 5))
    for _ in range(3):
        _, log = folder.begin(range(2), output="mine")
        getattr(log, ends)()
    folder.files.output.unlink()  # it is mine
    theirs, log = folder.begin(range(2), output="theirs")
    log.close()
    assert 6 <= theirs.start <= 11, "and not ever higher, from death to death"


def test_a_run_tells_its_own_rows_from_those_of_another_output_under_the_same_names(folder):
    _, log = folder.begin(range(3), output="mine")
    log.append([EpisodeId("0-0", 0), EpisodeId("1-0", 0)])
    log.close()
    theirs, log = folder.begin(range(3), output="theirs")
    begun = plan([], theirs.tried, floor=theirs.floor, start=theirs.start)
    assert set(begun.to_retire) == begun.of_others == {RowKey(0, 0), RowKey(1, 0)}, "stopped, and not its own"
    assert continued_of(folder.root, None, begun, 0) is None
    log.append([EpisodeId("1-0", theirs.start), EpisodeId("2-0", theirs.start)])
    log.close()
    for output, own in (("mine", {RowKey(0, 0)}), ("theirs", {RowKey(1, 0), RowKey(2, 0)})):
        history, log = folder.begin(range(3), output=output)
        log.close()
        begun = plan([], history.tried, floor=history.floor, start=history.start)
        assert set(begun.to_retire) - begun.of_others == own
        assert continued_of(folder.root, None, begun, 0) == Continued(rows=0, anew=len(own))


def test_a_fresh_run_counts_on_from_rows_that_nobody_can_name_any_more(folder):
    folder.begin(range(3))[1].close()
    folder.done((0, 0), (2, 7))
    keep_attempts(folder.root, folder.files, NEXT)  # the materialised rows are gone
    sent = read_dispatched(folder.log).beside("next")
    assert sent.floor > max(7, sent.attempts.get("0-0", 0))


def test_a_fresh_run_in_a_directory_without_any_trace_begins_at_the_first_attempt(folder):
    folder.done((0, 0))
    keep_attempts(folder.root, folder.files, NEXT)
    assert not folder.log.exists()
