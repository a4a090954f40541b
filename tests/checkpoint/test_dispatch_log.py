"""No attempt is sent twice, whatever died in between and whatever is left of the log."""

import contextlib
import threading

import msgspec
import pytest

from tests.checkpoint.dying_disk import DeathError, DyingDisk
from triocollect.checkpoint.dispatch_log import DispatchLog, start_dispatched
from triocollect.checkpoint.sent import read_dispatched
from triocollect.errors import StorageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Dispatched, DispatchHeader

HERE, ELSEWHERE = "this boot", "another boot"
HEADER = DispatchHeader("4f2c", 3, 12, reserved=0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dispatched.jsonl"


def start(path, attempts=None, *, floor=0, boot=HERE) -> DispatchLog:
    header = msgspec.structs.replace(HEADER, floor=floor)
    return start_dispatched(path, header, attempts or {}, boot=boot)


def read(path, boot=HERE, **kwargs):
    return read_dispatched(path, boot=boot, **kwargs)


def test_an_answer_that_no_other_file_tells_of_is_told_by_the_log(path):
    log = start_dispatched(path, HEADER, {"0-0": 2, "1-0": 3}, {"0-0": 2, "1-0": 1}, boot=HERE)
    log.append([EpisodeId("2-0")])
    log.answered(EpisodeId("2-0"))
    log.close()
    sent = read(path)
    assert sent.attempts == {"0-0": 2, "1-0": 3, "2-0": 0}
    assert sent.answered == {"0-0": 2, "1-0": 1, "2-0": 0}


def test_what_finished_in_another_output_may_have_been_sent_up_to_what_was_reserved(path):
    start_dispatched(path, msgspec.structs.replace(HEADER, output="mine"), {"0-0": 2}, boot=HERE).close()
    assert read(path).beside("mine").start == 0
    other = read(path).beside("yours")
    assert other.start == other.header.reserved + 1 > 2
    assert other.floor == 0, "a number to start at, and no sign that a row of this output was sent"
    start(path, {"0-0": 2}).close()
    assert read(path).beside("yours").start == 0, "nobody knows whose it is"


def test_after_a_clean_end_another_output_starts_right_above_what_was_used(path):
    log = start_dispatched(path, msgspec.structs.replace(HEADER, output="mine"), {"0-0": 2}, boot=HERE)
    log.append([EpisodeId("0-0", 3), EpisodeId("1-0")])
    log.end()
    assert read(path).beside("yours").start == 4


def test_a_clean_end_leaves_out_what_was_sent_and_ran_nowhere_and_no_other_end_does(path):
    log = start(path, {"0-0": 2})
    log.append([EpisodeId("0-0", 3), EpisodeId("1-0"), EpisodeId("2-0")])
    log.nothing_ran(EpisodeId("0-0", 3))
    log.nothing_ran(EpisodeId("1-0"))
    log.nothing_ran(EpisodeId("2-0"))
    log.append([EpisodeId("2-0")])  # again, and nobody knows what came of it
    log.reserve(9)
    assert read(path).attempts == {"0-0": 3, "1-0": 0, "2-0": 0}
    log.end()
    assert read(path).attempts == {"0-0": 2, "2-0": 0}


def test_a_killed_process_loses_no_line(path):
    log = start(path, {"0-0": 2})
    log.append([EpisodeId("1-0")])
    log.append([EpisodeId("0-0", 3), EpisodeId("1-0", 1)])
    sent = read(path)  # the log was not closed: its writer was killed
    assert (sent.attempts, sent.floor, sent.complete, sent.faults) == ({"0-0": 3, "1-0": 1}, 0, True, ())
    assert [sent.next_attempt(name) for name in ("0-0", "1-0", "never sent")] == [4, 2, 0]
    assert sent.next_attempt("1-0", shown=7) == 8, "the output knows better"
    log.close()


def test_after_the_death_of_the_machine_every_attempt_starts_above_what_was_reserved(path):
    log = start(path, {"0-0": 2})
    log.close()
    sent = read(path, ELSEWHERE)
    reserved = log.header.reserved
    assert [sent.next_attempt(name) for name in ("0-0", "never named")] == [reserved + 1] * 2


def test_a_run_that_ended_in_order_is_trusted_on_every_machine(path):
    log = start(path)
    log.append([EpisodeId("0-0")])
    log.end()
    sent = read(path, ELSEWHERE)
    assert [sent.next_attempt(name) for name in ("0-0", "1-0")] == [1, 0]
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_dead_machine_may_have_sent_is_known_to_all_later_runs(path):
    start(path).close()
    floor = read(path, ELSEWHERE).floor
    start(path, floor=floor, boot=ELSEWHERE).end()
    assert read(path).next_attempt("never named") == floor


def test_the_first_run_of_a_directory_starts_at_nought(path):
    sent = read(path)
    assert (sent.header, sent.complete, sent.faults) == (None, False, ())
    assert sent.above(-1).next_attempt("0-0") == 0


def test_without_a_log_attempts_start_above_everything_the_other_files_show(path):
    assert read(path).above(3).next_attempt("0-0") == 4
    log = start(path)
    log.end()
    assert read(path).above(3).next_attempt("0-0") == 0, "a log that is there knows"


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b'{"run":1}\n', b"\xff\n" * 3, b"[" * 9000 + b"\n"])
def test_a_log_without_its_header_is_not_trusted(path, content):
    path.write_bytes(content)
    assert not read(path).complete
    log = start(path, {"0-0": 4})
    log.close()
    assert read(path).next_attempt("0-0") == 5, "the next start writes a good one"


def test_a_log_that_cannot_be_read_stops_nobody(path):
    path.mkdir()
    sent = read(path)
    assert not sent.complete
    assert str(path) in sent.faults[0]


@pytest.mark.parametrize("head", [b"", b"\0" * 40 + b"\n", b"{}\n"])
def test_who_has_left_a_log_without_its_header_may_have_sent_every_row(path, head):
    path.write_bytes(head)
    assert read(path).next_attempt("never named") == 1
    path.write_bytes(head + b"{}\n" + b'{"r":"0-0","a":4}\n')
    sent = read(path)
    assert [sent.next_attempt(name) for name in ("0-0", "never named")] == [5, 5]
    assert any("has no header" in fault for fault in sent.faults)


@pytest.mark.parametrize("harm", [b"\0" * 16, b'{"r":"1-0","a":-1}', b'{"r":"1-0","a":1000000000}'])
def test_a_damaged_line_is_named_and_what_it_may_have_said_is_not_used_again(path, harm):
    log = start(path)
    for task in range(3):
        log.append([EpisodeId(f"{task}-0")])
    log.end()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], harm + b"\n", lines[3]]))
    sent = read(path)
    assert sent.complete
    assert [fault.partition(": ")[0] for fault in sent.faults] == [
        f"{path}, line 3 (byte {len(lines[0] + lines[1])})"
    ]
    assert sent.next_attempt("1-0") > log.header.reserved
    assert sent.attempts == {"0-0": 0, "2-0": 0}


@pytest.mark.parametrize(("tail", "attempt"), [(b'{"r":"0-0","a":', 0), (b'{"r":"0-0","a":1}', 2)])
def test_half_a_line_was_never_sent_and_one_without_its_newline_may_have_been(path, tail, attempt):
    start(path).end()
    with path.open("ab") as file:
        file.write(tail)
    sent = read(path)
    assert sent.faults == ()
    assert sent.next_attempt("0-0") == attempt
    log = start(path, sent.attempts)
    log.append([EpisodeId("7-0")])
    log.end()
    assert read(path).attempts == {**sent.attempts, "7-0": 0}, "the next line stands by itself"


def test_only_rollouts_that_are_left_take_memory(path):
    log = start(path, {f"{task}-0": 0 for task in range(100)})
    log.end()
    assert read(path, keep=lambda rollout: rollout == "7-0").attempts == {"7-0": 0}


def test_an_attempt_above_the_reserved_ones_is_reserved_before_it_is_sent(path):
    log = start(path)
    log.append([EpisodeId("0-0", log.header.reserved)])
    first = log.header.reserved
    log.append([EpisodeId("0-0", first + 1), EpisodeId("1-0", 1)])
    assert log.header.reserved > first
    on_disk = msgspec.json.decode(path.read_bytes().splitlines()[0], type=DispatchHeader)
    assert on_disk == log.header
    assert read(path).attempts == {"0-0": first + 1, "1-0": 1}
    log.append([EpisodeId("2-0")])
    assert read(path).attempts["2-0"] == 0, "lines go to the file that bears the name"
    log.close()


def test_every_line_is_a_wire_struct(path):
    log = start(path, {"0-0": 1})
    log.append([EpisodeId("1-0")])
    log.end()
    header, *lines = path.read_bytes().splitlines()
    assert msgspec.json.decode(header, type=DispatchHeader).epoch == 3
    assert [msgspec.json.decode(line, type=Dispatched) for line in lines] == [
        Dispatched("0-0", 1),
        Dispatched("1-0", 0),
    ]


def test_a_sync_in_a_thread_and_a_new_reservation_do_not_meet(path):
    log = start(path)
    enough = threading.Event()

    def sync():
        while not enough.is_set():
            log.sync()

    thread = threading.Thread(target=sync)
    thread.start()
    try:
        for attempt in range(30):
            log.append([EpisodeId("0-0", attempt)])
    finally:
        enough.set()
        thread.join()
    log.sync()
    assert not log.unsynced
    log.end()
    assert read(path).attempts == {"0-0": 29}


def lives(path, sent):
    """Two runs: sends, a retry far above, an end or none. `sent` gets each attempt that may go out."""
    log = start(path, {"0-0": 0})
    for number, episode in enumerate([EpisodeId("0-0", 1), EpisodeId("1-0"), EpisodeId("1-0", 9)]):
        log.append([episode])
        sent.append(episode)
        if number == 1:
            log.sync()
    log.end()
    past = read(path)
    log = start(path, past.attempts, floor=past.floor)
    log.append([EpisodeId("2-0")])
    sent.append(EpisodeId("2-0"))


@pytest.mark.parametrize("kept", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("power", [True, False], ids=["power cut", "kill"])
@pytest.mark.parametrize("steps", range(18))
def test_no_attempt_that_was_sent_is_the_next_one_after_a_death(path, steps, power, kept):
    sent = []
    start(path, {"0-0": 0}).end()
    with contextlib.suppress(DeathError), DyingDisk(path.parent, steps, power=power, kept=kept):
        lives(path, sent)
    past = read(path, ELSEWHERE if power else HERE)
    assert past.complete
    for episode in [EpisodeId("0-0"), *sent]:
        assert past.next_attempt(episode.rollout_id) > episode.attempt


@pytest.mark.parametrize("steps", range(18))
def test_an_attempt_is_not_sent_when_the_disk_could_not_say_so_and_the_log_goes_on(path, steps):
    start(path, {"0-0": 0}).end()
    log, sent, others = None, [], set()
    with DyingDisk(path.parent, steps, fails=True):
        for attempt in range(1, 12):
            with contextlib.suppress(StorageError):
                log = log or start(path, {"0-0": 0})
                log.append([EpisodeId("0-0", attempt)])
                sent.append(attempt)
            with contextlib.suppress(StorageError, AttributeError):
                log.append([EpisodeId(f"{attempt}-1")])
                others.add(f"{attempt}-1")
    assert len(sent) >= 10
    assert read(path).next_attempt("0-0") == sent[-1] + 1
    assert read(path).attempts.keys() == {"0-0", *others}
    assert max(sent) <= log.header.reserved
    log.end()
    assert read(path, ELSEWHERE).next_attempt("0-0") == sent[-1] + 1
