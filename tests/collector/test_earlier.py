"""Continue, start afresh, or refuse: and a refusal changes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio
from msgspec.structs import replace

from tests.collector.runs import RunFolder, rewarded
from triocollect import errors
from triocollect.checkpoint.directory import open_directory
from triocollect.collector.earlier import Files
from triocollect.collector.last_directory import Owned, id_of, owned
from triocollect.protocol.files import RunFile

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def halfway(place, **settings):
    """A run of which the first two rows are done."""

    async def dispatch(row, attempt):
        if row["prompt"] in {"p0", "p1"}:
            return {"reward": 1.0}
        return await trio.sleep_forever()

    with trio.move_on_after(1):
        await place.collect(dispatch, **settings)
    return place.snapshot()


async def refused(place, error, **settings):
    before = place.snapshot()
    with pytest.raises(error) as raised:
        await place.collect(rewarded, **settings)
    assert place.snapshot() == before
    return str(raised.value)


async def test_a_fresh_run_over_rows_is_refused_unless_it_may_delete_them(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    said = await refused(place, errors.WouldOverwriteError, output={"resume": "never"})
    assert '"overwrite": True deletes them' in said
    report = await place.collect(rewarded, output={"resume": "never", "overwrite": True})
    assert (report.succeeded_now, report.sends) == (4, 4)
    assert place.written() == [(0, 0), (1, 0), (2, 0), (3, 0)]


async def test_a_fresh_run_counts_no_failure_of_an_earlier_one(tmp_path):
    place, attempts = RunFolder(tmp_path, rows=1), []

    async def failing(row, attempt):
        attempts.append(attempt)
        return {"_ng_failure_class": "judge_invalid"}

    await place.collect(failing)
    await place.collect(failing, output={"resume": "never", "overwrite": True})
    assert attempts == [0, 0]
    assert len(place.sidecar()) == 1


async def test_a_resume_of_nothing_is_refused_and_leaves_nothing(tmp_path):
    said = await refused(RunFolder(tmp_path), errors.NothingToResumeError, output={"resume": "must"})
    assert "nothing to resume" in said


@pytest.mark.parametrize(
    ("field", "rows", "words"),
    [
        ("limit", {"limit": 3}, "limit from none to 3"),
        ("num_repeats", {"num_repeats": 2}, "num_repeats from 1 to 2"),
        (
            "responses_create_params",
            {"responses_create_params": {"temperature": 0.5}},
            'to {"temperature":0.5}',
        ),
        ("agent", {"agent_map": {"_default": "other"}}, 'agent from none to {"_default":"other"}'),
    ],
)
async def test_a_changed_setting_is_refused_by_name_until_it_is_accepted(tmp_path, field, rows, words):
    place = RunFolder(tmp_path)
    done = await halfway(place)
    said = await refused(place, errors.DriftError, rows=rows)
    assert field in said
    assert words in said
    await place.collect(rewarded, rows=rows, output={"accept_drift": frozenset({field})})
    assert place.output.read_bytes().startswith(done["out.jsonl"])
    later = place.records()[2:]
    assert all(record["_ng_accepted_drift"] == [field] for record in later)
    assert field in msgspec.json.decode((tmp_path / "out_run.json").read_bytes(), type=RunFile).drift


async def test_rows_that_are_taken_all_the_same_carry_the_drift(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    (tmp_path / "out_run.json").unlink()
    place.write_rows([{"prompt": f"q{n}"} for n in range(4)])
    await place.collect(rewarded, output={"accept_drift": frozenset({"input"})})
    assert [record.get("_ng_accepted_drift") for record in place.records()] == [
        None,
        None,
        ["input"],
        ["input"],
    ]


async def test_a_changed_input_is_refused(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    place.write_rows([{"prompt": f"q{n}"} for n in range(4)])
    said = await refused(place, errors.DriftError)
    assert f"(input is {place.input} as before, and something else stands there)" in said


async def test_what_cannot_change_a_result_is_no_drift(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place, concurrency=3)
    assert (await place.collect(rewarded, concurrency=1, row_timeout_s=9)).succeeded == 4


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
async def test_a_cut_materialised_file_is_rebuilt(tmp_path, keep):
    place = RunFolder(tmp_path)
    whole = (await halfway(place))["out_materialized_inputs.jsonl"]
    (tmp_path / "out_materialized_inputs.jsonl").write_bytes(whole[:keep])
    assert (await place.collect(rewarded)).succeeded == 4
    assert (tmp_path / "out_materialized_inputs.jsonl").read_bytes() == whole


@pytest.mark.parametrize("damage", [b"", b"\0" * 200, b'{"run":1}', b"[" * 5000])
async def test_a_damaged_run_file_is_no_reason_to_fail_for_ever(tmp_path, damage):
    place = RunFolder(tmp_path)
    await halfway(place)
    (tmp_path / "out_run.json").write_bytes(damage)
    report = await place.collect(rewarded)
    assert report.succeeded == 4
    assert any("out_run.json is damaged" in note for note in report.notes)
    assert (await place.collect(rewarded)).notes == ()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
async def test_what_is_no_file_where_the_run_file_belongs_is_put_aside(tmp_path, make):
    place = RunFolder(tmp_path)
    await halfway(place)
    (tmp_path / "out_run.json").unlink()
    make(tmp_path / "out_run.json")
    report = await place.collect(rewarded)
    assert report.succeeded == 4
    assert any("it is called out_run.json.not-a-file now" in note for note in report.notes)
    assert (await place.collect(rewarded)).notes == ()


async def test_a_run_file_that_is_far_too_large_is_a_damaged_one(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    os.truncate(tmp_path / "out_run.json", 1 << 25)
    report = await place.collect(rewarded)
    assert report.succeeded == 4
    assert any("out_run.json is damaged" in note for note in report.notes)


async def test_a_checkpoint_directory_is_found_again_beside_an_output_whose_folder_was_renamed(tmp_path):
    directory = await open_directory(tmp_path / "results" / "ckpt", wait_s=None, warn=pytest.fail)
    directory.raise_epoch()
    directory.close()
    earlier = RunFile(run="r", created="", rows=1, rows_sha256="", fields={})
    earlier = replace(earlier, checkpoints=directory.run, checkpoint_dir=str(directory.path))
    moved = (tmp_path / "results").rename(tmp_path / "renamed")
    assert owned(earlier, Files(moved / "out.jsonl"), None, accepted=False) == Owned(ours=False)
    (moved / "ckpt").rename(tmp_path / "elsewhere")
    gone = owned(earlier, Files(moved / "out.jsonl"), None, accepted=False)
    assert "which is not there any more" in gone.told


def test_a_directory_that_no_path_can_name_is_none(tmp_path):
    assert id_of(tmp_path / "a\0b") is None


async def test_a_byte_that_damages_the_name_of_a_field_is_told(tmp_path):
    place = RunFolder(tmp_path)
    run_file = (await halfway(place))["out_run.json"]
    (tmp_path / "out_run.json").write_bytes(run_file.replace(b'"drift"', b'"dri\xfft"'))
    assert any("out_run.json is damaged" in note for note in (await place.collect(rewarded)).notes)


async def test_a_run_that_gym_began_is_continued(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    (tmp_path / "out_run.json").unlink()
    report = await place.collect(rewarded)
    assert (report.succeeded, report.succeeded_now) == (4, 2)


async def test_rows_that_gym_numbered_otherwise_are_refused_with_the_option_that_helps(tmp_path):
    place = RunFolder(tmp_path)
    row = json.dumps(place.row({"prompt": "p0"}))
    place.input.write_text(f"{row}\n{row}")  # Gym counts the last line as another task: it has no newline
    await halfway(place, rows={"gym_task_numbering": True})
    (tmp_path / "out_run.json").unlink()
    assert "gym_task_numbering" in await refused(place, errors.DriftError)
    assert (await place.collect(rewarded, rows={"gym_task_numbering": True})).succeeded == 2


async def test_rows_that_the_input_does_not_have_are_told_and_left_alone(tmp_path):
    place = RunFolder(tmp_path)
    done = await halfway(place)
    strange = b'{"reward":1.0,"_ng_task_index":77,"_ng_rollout_index":0}\n'
    place.output.write_bytes(done["out.jsonl"] + strange)
    report = await place.collect(rewarded)
    assert (report.expected, report.succeeded, report.left) == (4, 4, 0)
    assert any("77-0" in note for note in report.notes)
    assert place.output.read_bytes().startswith(done["out.jsonl"] + strange)


async def test_a_bad_row_is_refused_before_anything_of_an_earlier_run_is_touched(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    place.input.write_text(place.input.read_text() + "[]\n")
    said = await refused(place, errors.InputError, output={"resume": "never", "overwrite": True})
    assert "line 5" in said


HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.processes
async def test_a_second_collector_is_refused_by_name_and_changes_no_byte(tmp_path):
    place = RunFolder(tmp_path)
    await halfway(place)
    command = [sys.executable, "-c", HOLDER, str(place.output)]
    with subprocess.Popen(  # noqa: ASYNC220  # the holder is no task of ours
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        said = await refused(place, errors.LockedError)
        assert f"process {holder.pid} on {os.uname().nodename}" in said
        assert "waited 3 s" in await refused(place, errors.LockedError, output={"wait_for_lock_s": 3.0})
        holder.stdin.close()
        holder.wait()
    assert (await place.collect(rewarded)).succeeded == 4


@pytest.mark.parametrize(("make", "what"), [(os.mkfifo, "a pipe"), (os.mkdir, "a folder")])
async def test_an_output_that_can_be_no_file_is_the_users_mistake(tmp_path, make, what):
    place = RunFolder(tmp_path)
    make(place.output)
    said = await refused(place, errors.UsageError)
    assert said == f"--output: {place.output} is {what}, not a file; name another file"
