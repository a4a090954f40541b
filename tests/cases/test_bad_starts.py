"""Whatever lies where a file of ours belongs, a restart goes on, and takes the next checkpoint."""

import os
from functools import partial
from pathlib import Path
from signal import SIGUSR1

import pytest

from tests.cases.expect import Case, Checkpoints, Grown, Run
from tests.cases.harness import play

CHECKPOINTED = "B103"  # LATEST is 8, two rows are left, one of them is in it


def folder(path):
    path.mkdir()
    (path / "mine").write_text("notes")


def pipe(path):
    os.mkfifo(path)


def link(path):
    (path.parent.parent / "elsewhere").write_text("theirs")
    path.symlink_to("../elsewhere")


WORDS = {folder: "a folder", pipe: "a pipe", link: "a link"}


def put(name, other, root: Path):
    (root / "ckpt" / name).unlink(missing_ok=True)
    other(root / "ckpt" / name)


def nothing_went_through(seen):
    assert seen.after.get("elsewhere", b"theirs") == b"theirs"


@pytest.mark.parametrize("other", WORDS)
@pytest.mark.parametrize(
    "name", ["LATEST", "collector.lock", "collector.pid", "dispatched.jsonl", "outcomes.jsonl", ".LATEST.tmp"]
)
def test_what_is_no_file_is_told_and_set_aside(name, other, tmp_path):
    told = ["1 rows go on from checkpoint c-000008"]
    if name != ".LATEST.tmp":  # a draft is nobody's
        told += [
            f"{name} was {WORDS[other]} where a file of ours belongs; it is called {name}.not-a-file now"
        ]
    if name == "LATEST":
        told += [f"LATEST was passed over: it is {WORDS[other]}, not a file"]
    run = Run(
        change=partial(put, name, other),
        signal=SIGUSR1,
        exit_code=0,
        says=tuple(told),
        sent="c@1 d@1",
        continued="c@1",
        disk=Grown(output="c@1 d@1"),
        checkpoints=Checkpoints(latest=10, folders="8 10", foreign=f"{name}.not-a-file"),
        also=nothing_went_through,
    )
    play(CHECKPOINTED, Case(checkpoints="ckpt", runs=(run,)), tmp_path)


@pytest.mark.parametrize("other", WORDS)
def test_a_fresh_run_begins_over_a_pointer_that_is_no_file(other, tmp_path):
    run = Run(
        change=partial(put, "LATEST", other),
        flags=("--overwrite",),
        exit_code=0,
        says=("it is called LATEST.not-a-file now",),
        sent="a b c d",
        disk=Grown(output="a b c d", fresh=True),
        checkpoints=Checkpoints(foreign="LATEST.not-a-file"),
    )
    play(CHECKPOINTED, Case(checkpoints="ckpt", runs=(run,)), tmp_path)


def away(root: Path):
    """The checkpoint that LATEST names is a link to one outside, the same byte for byte."""
    (root / "ckpt/ckpt-000008").rename(root / "outside")
    (root / "ckpt/ckpt-000008").symlink_to("../outside")


def parts_away(root: Path):
    (root / "ckpt/ckpt-000008/participants").rename(root / "outside")
    (root / "ckpt/ckpt-000008/participants").symlink_to("../../outside")


@pytest.mark.parametrize(
    ("lie", "why"),
    [(away, "ckpt-000008 is not there"), (parts_away, "which is a link")],
)
def test_a_checkpoint_that_lies_is_passed_over_for_the_one_before_it(lie, why, tmp_path):
    run = Run(
        change=lie,
        exit_code=0,
        says=("ckpt-000008 was passed over: ", why, "rows go on from ckpt-000007"),
        sent="c@1 d@1",
        continued="c@1",
        disk=Grown(output="c@1 d@1"),
    )
    play(CHECKPOINTED, Case(checkpoints="ckpt", runs=(run,)), tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b"{}\n", b"half a li"])
def test_rows_may_all_have_been_sent_where_the_log_cannot_be_read(content, tmp_path):
    def damage(root: Path):
        (root / "ckpt/LATEST").unlink()
        (root / "ckpt/dispatched.jsonl").write_bytes(content)

    run = Run(
        change=damage,
        exit_code=0,
        says=("dispatched.jsonl has no header, so what was sent is not known",),
        sent="c@1 d@1",
        disk=Grown(output="c@1 d@1"),
    )
    play(CHECKPOINTED, Case(checkpoints="ckpt", runs=(run,)), tmp_path)
