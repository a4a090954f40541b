"""What `verify` asks of a run's files: yes, NO, or not to be judged."""

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.reading.golden import same_as_golden
from tests.reading.runs import lines, outcome, publish, result, row, snapshot, write_directory, write_output
from triocollect.__main__ import main
from triocollect.checkpoint.store import Store
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Dispatched


def append(path, *objects):
    with Path(path).open("ab") as file:
        file.write(b"".join(msgspec.json.encode(one) + b"\n" for one in objects))


def facts(capsys, path=".", code=0):
    assert main(["verify", path, "--json"]) == code
    return {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)["facts"]}


def test_a_preempted_run_adds_up_and_programs_read_the_same_as_ever(folder, capsys):
    before = snapshot(folder)
    assert main(["verify", ".", "--json"]) == 0
    told = capsys.readouterr().out
    assert json.loads(told)["holds"]
    assert json.loads(told)["judged"]
    assert same_as_golden("verify", told)
    assert snapshot(folder) == before


def test_of_two_directories_every_line_says_which_it_is_about(folder, capsys):
    (folder / "second").mkdir()
    write_output(folder / "second", checkpoints="other")
    write_directory(folder / "ckpt2", run="other")
    assert main(["verify", ".", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["facts"]
    about = [fact["says"].partition(": ")[0] for fact in said if fact["name"] == "latest_forward"]
    assert about == ["ckpt", "ckpt2"]


def write(path, data):
    Path(path).write_bytes(data)


WRONG = {
    "one_result": (lambda: append("out.jsonl", result(1, _ng_attempt_index=1)), "1 result of rows"),
    "attempts": (
        lambda: append("out_failures.jsonl", row(2, _ng_failure_class="x")),
        "out_failures.jsonl, line 2 (byte 86): row 2-0 at attempt 0, after 0",
    ),
    "sent": (
        lambda: append("ckpt/dispatched.jsonl", Dispatched("3-0", 0)),
        "line 9 (byte 186): 3-0 at attempt 0, after 1",
    ),
    "sent_again": (
        lambda: append("ckpt/dispatched.jsonl", Dispatched("1-0", 1)),
        "1-0: its result is of attempt 0, and attempt 1 was sent",
    ),
    "latest_forward": (
        lambda: append("ckpt/outcomes.jsonl", outcome(7, published=True)),
        "ckpt/LATEST names ckpt-000002, ckpt-000007 was published",
    ),
    "whole": (
        lambda: write(next(Path("ckpt/ckpt-000001").rglob("records-*")), b"{}\n"),
        "is damaged: other bytes than when it was written",
    ),
    "committed_once": (
        lambda: write("ckpt/ckpt-000002/participants/agent/agent/records-00.jsonl", b"{}\n"),
        "ckpt-000002: participants/agent/agent/records-00.jsonl beside the one that counts",
    ),
    "scope": (
        lambda: publish(Store(Path("ckpt")), EpisodeId("3-0", 2), crew=(("agent", "agent"),)),
        "ckpt-000003: continues 3-0-a2, of which no environment has a record",
    ),
    "continued_rows": (
        lambda: publish(Store(Path("ckpt")), EpisodeId("chess")),
        "chess is no row of it",
    ),
    "same_rows": (
        lambda: append("out_materialized_inputs.jsonl", row(6)),
        "out_materialized_inputs.jsonl: other bytes than out_run.json says",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_and_nothing_else_is(folder, capsys, name):
    wrong, words = WRONG[name]
    wrong()
    found = facts(capsys, code=4)
    assert [each for each, fact in found.items() if fact["faults"]] == [name]
    assert words in "\n".join(found[name]["faults"])
    main(["verify", "."])
    assert f"NO   {found[name]['says']}\n" in capsys.readouterr().out


OPEN = {
    "sent": (lambda: Path("ckpt/dispatched.jsonl").unlink(), "ckpt/dispatched.jsonl is not there"),
    "latest_forward": (lambda: Path("ckpt/LATEST").unlink(), "a run that starts afresh removes it"),
    "same_rows": (lambda: Path("out_materialized_inputs.jsonl").unlink(), "is not there"),
    "pruned": (lambda: Path("ckpt/ckpt-000009").mkdir(), "triocollect gc removes it"),
    "attempts": (lambda: Path("out_run.json").unlink(), "another program's"),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_cannot_be_judged_is_not_called_wrong(folder, capsys, name):
    lost, words = OPEN[name]
    lost()
    main(["verify", ".", "--json"])
    found = {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)["facts"]}
    assert words in "\n".join(found[name]["open"])
    assert found[name]["faults"] == []
    main(["verify", "."])
    assert f"?    {found[name]['says']}\n       cannot be judged: " in capsys.readouterr().out


def test_what_a_stop_leaves_to_the_next_start_is_no_sign_of_a_death(folder, capsys):
    publish(Store(folder / "ckpt"), EpisodeId("3-0", 1))
    tries = (folder / "ckpt/outcomes.jsonl").read_bytes()
    stop = outcome(3, published=True, continued=1, stopped=True)
    for last, verdict in ((stop, []), (outcome(3, published=True, continued=1), ["ckpt-000001"])):
        whole = b"".join(tries.splitlines(keepends=True)[:2]) + msgspec.json.encode(last) + b"\n"
        (folder / "ckpt/outcomes.jsonl").write_bytes(whole)
        main(["verify", ".", "--json"])
        found = {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)["facts"]}
        assert [name for name in verdict if name in "".join(found["pruned"]["open"])] == verdict
        assert bool(found["pruned"]["open"]) == bool(verdict)
        assert ("but ckpt-000001: a stop leaves" in found["pruned"]["says"]) == (not verdict)


def test_of_a_checkpoint_it_is_told_what_a_start_would_do_with_it(folder, capsys):
    def told():
        main(["verify", "."])
        return capsys.readouterr().out

    assert "1 row in flight can be continued" in told()
    (folder / "ckpt/ckpt-000002/collection.json").write_bytes(b"{}")
    assert "what LATEST names cannot be used; a start goes on from ckpt-000001" in told()


def test_a_checkpoint_of_an_output_that_was_not_asked_about_is_called_that(folder, capsys):
    publish(Store(folder / "ckpt"), EpisodeId("3-0", 2), output="r2")
    main(["verify", "out.jsonl"])
    assert "c-000003-00000003: 1 row in flight of another output" in capsys.readouterr().out


def test_of_rows_that_have_ended_since_the_cut_nothing_is_continued(folder, capsys):
    with (folder / "out.jsonl").open("ab") as output:
        output.write(lines(result(3, _ng_attempt_index=2)))
    main(["verify", "."])
    assert "1 row in flight at the cut, 0 of them unfinished still" in capsys.readouterr().out


@pytest.mark.parametrize(
    "damaged", ["LATEST", "collector.lock", "dispatched.jsonl", "outcomes.jsonl", "ckpt-000002"]
)
@pytest.mark.parametrize("damage", ["gone", "empty", "noise", "folder"])
def test_damage_of_any_kind_ends_in_words(folder, capsys, damaged, damage):
    path = folder / "ckpt" / damaged
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes(b"" if damage == "empty" else b"\xff{\0\n")
    for command in ("verify", "status", "inspect", "gc"):
        assert main([command, "ckpt"]) in {0, 1, 2, 4}
        told = capsys.readouterr()
        assert "internal error" not in told.err, command
        assert "Traceback" not in told.err + told.out, command


FILES = ("out_run.json", "out_materialized_inputs.jsonl", "out.jsonl", "ckpt/outcomes.jsonl", "ckpt/LATEST")


@pytest.mark.parametrize("file", FILES)
def test_nothing_waits_at_a_pipe_that_bears_the_name_of_a_file(folder, capsys, file):
    (folder / file).unlink()
    os.mkfifo(folder / file)
    for command in ("verify", "status", "inspect", "gc"):
        assert main([command, "."]) in {0, 1, 4}
        assert "internal error" not in capsys.readouterr().err, command
