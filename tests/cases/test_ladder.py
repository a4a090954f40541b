"""The rungs below: what cannot be restored starts from its input, as an attempt that nobody has used."""

from signal import SIGTERM

from attrs import evolve

from tests.cases.expect import Case, Checkpoints, Grown, Run
from tests.cases.harness import play

STOPPED = Run(
    exit_code=75,
    signal=SIGTERM,
    says=("rows in flight go on from where they were cut",),
    sent="c@1 d@1",
    continued="c@1",
    disk=Grown(),
    checkpoints=Checkpoints(latest=5, folders="3 5"),
)
CONTINUED = Run(
    exit_code=0,
    says=("2 rows go on from checkpoint c-000005", "Cut and continued: 2 rows"),
    sent="c@2 d@2",
    continued="c@2 d@2",
    disk=Grown(output="c@2 d@2"),
    checkpoints=Checkpoints(latest=5, folders="3 5"),
)


def runs(*some, **more):
    return Case(checkpoints="ckpt", runs=some, **more)


def refuses(deployment):
    deployment.refuse_to_install("the records are not mine")


def test_what_a_stop_cut_goes_on_on_fresh_servers(tmp_path):
    play("B053", runs(STOPPED, CONTINUED), tmp_path)


def test_servers_that_have_served_are_not_restored_into(tmp_path):
    anew = evolve(
        CONTINUED,
        says=(
            "2 rows are not continued, they start from their input (2-0, 3-0): ",
            "has served already and cannot be restored into; to continue rows, start the servers anew",
            "Cut and started from the input again: 2 rows",
        ),
        continued="",
        retired="c@1 d@1",
    )
    play("B053", runs(STOPPED, anew, same_servers=True), tmp_path)


def test_a_restore_that_is_refused_is_cleaned_up_and_its_rows_start_one_attempt_later(tmp_path):
    anew = evolve(
        CONTINUED,
        servers=refuses,
        says=(
            "2 rows are not continued, they start from their input (2-0, 3-0): ",
            "the records are not mine",
            "Cut and started from the input again: 2 rows",
        ),
        sent="c@3 d@3",
        continued="",
        retired="c@2 d@2",
        disk=Grown(output="c@3 d@3"),
    )
    play("B053", runs(STOPPED, anew), tmp_path)


def test_after_a_restore_that_was_refused_and_a_stop_all_goes_on(tmp_path):
    anew = evolve(
        STOPPED,
        servers=refuses,
        says=("the records are not mine",),
        sent="c@3 d@3",
        continued="",
        retired="c@2 d@2",
        checkpoints=Checkpoints(latest=7, folders="3 5 7"),
    )
    last = evolve(
        CONTINUED,
        says=("2 rows go on from checkpoint c-000007",),
        sent="c@4 d@4",
        continued="c@4 d@4",
        disk=Grown(output="c@4 d@4"),
        checkpoints=Checkpoints(latest=7, folders="5 7"),
    )
    play("B053", runs(STOPPED, anew, last), tmp_path)


def test_a_damaged_lock_file_costs_no_row_its_way(tmp_path):
    def damage(root):
        (root / "ckpt/collector.lock").write_bytes(b"\0" * 100)

    play("B053", runs(STOPPED, evolve(CONTINUED, change=damage)), tmp_path)


def test_a_directory_that_was_copied_without_its_lock_file_is_the_same(tmp_path):
    def copied(root):
        (root / "ckpt/collector.lock").unlink()
        (root / "ckpt/dispatched.jsonl").write_bytes(b"")

    play("B053", runs(STOPPED, evolve(CONTINUED, change=copied)), tmp_path)
