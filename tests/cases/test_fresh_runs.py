"""A run that begins afresh over an earlier one, in its directory and perhaps on its servers."""

import shutil
from signal import SIGTERM

from attrs import evolve

from tests.cases.expect import Case, Checkpoints, Grown, Run
from tests.cases.harness import play

RESTART = Run(
    exit_code=0,
    says=("1 rows go on from checkpoint c-000003",),
    sent="c@1 d@1",
    continued="c@1",
    disk=Grown(output="c@1 d@1"),
    checkpoints=Checkpoints(latest=3, folders="3"),
)
STOPPED = evolve(
    RESTART, exit_code=75, signal=SIGTERM, disk=Grown(), checkpoints=Checkpoints(latest=5, folders="3 5")
)
AGAIN = Run(
    flags=("--overwrite",),
    exit_code=0,
    says=("Rows: 4 expected = 4 succeeded",),
    sent="a@1 b@1 c@2 d@2",
    disk=Grown(output="a@1 b@1 c@2 d@2", fresh=True),
    checkpoints=Checkpoints(),
)


def over(*runs, **more):
    return Case(checkpoints="ckpt", runs=runs, **more)


def empty(root):
    (root / "out.jsonl").unlink()
    shutil.rmtree(root / "ckpt")


def killed_with_two_written(root):
    lines = (root / "out.jsonl").read_bytes().splitlines(keepends=True)
    (root / "out.jsonl").write_bytes(b"".join(lines[:2]))


def test_attempts_go_on_where_they_stopped_also_those_that_only_the_output_knew(tmp_path):
    first = evolve(AGAIN, change=empty, flags=("-c", "1"), sent="a b c d", disk=Grown(output="a b c d"))
    second = evolve(first, change=killed_with_two_written, sent="c@1 d@1", disk=Grown(output="c@1 d@1"))
    play("B053", over(first, second, AGAIN), tmp_path)


def test_what_has_ended_is_not_retired_when_a_fresh_run_forgets_it(tmp_path):
    play("B053", over(RESTART, AGAIN, same_servers=True), tmp_path)


def test_what_may_still_run_is_retired_before_its_row_begins_afresh(tmp_path):
    play("B053", over(STOPPED, evolve(AGAIN, retired="c@1 d@1"), same_servers=True), tmp_path)


def test_what_the_forgotten_run_had_in_flight_is_not_continued_on_fresh_servers_either(tmp_path):
    play("B053", over(STOPPED, AGAIN), tmp_path)


def test_foreign_files_in_the_directory_stay(tmp_path):
    def mine(root):
        (root / "ckpt/notes.txt").write_text("mine")
        (root / "ckpt/ckpt-final").mkdir()
        (root / "ckpt/ckpt-final/notes.txt").write_text("mine")

    fresh = evolve(
        AGAIN,
        change=mine,
        sent="a b c d",
        disk=Grown(output="a b c d", fresh=True),
        checkpoints=Checkpoints(foreign="notes.txt ckpt-final"),
    )
    play("B053", over(fresh), tmp_path)
