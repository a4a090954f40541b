"""What `inspect` tells of checkpoints, and of one rollout."""

import json
import os
import shutil

import pytest

from tests.reading.golden import same_as_golden
from tests.reading.runs import RUN, snapshot
from triocollect.__main__ import main


def test_programs_read_the_same_as_ever(folder, capsys):
    for name, more in (
        ("inspect", []),
        ("inspect_checkpoint", ["--checkpoint", "2"]),
        ("inspect_rollout", ["--rollout", "3-0"]),
    ):
        assert main(["inspect", ".", *more, "--json"]) == 0
        assert same_as_golden(name, capsys.readouterr().out), name


def test_people_read_the_checkpoints_in_order(folder, capsys):
    assert main(["inspect", "ckpt"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "ckpt"
    assert said[1].startswith("  ckpt-000001  kept  c-000001-00000001, ")
    assert said[2] == "    1 row continued, 0 left out; 140 bytes of records"
    assert said[3] == "    environment env: 1 record, 73 bytes"
    assert said[5].startswith("  ckpt-000002  latest  c-000002-00000002, ")
    assert said[6] == "    1 row continued, 1 left out; 140 bytes of records"


@pytest.mark.parametrize("name", ["2", "ckpt-000002", "c-000002-00000002"])
def test_one_checkpoint_names_its_rows(folder, capsys, name):
    assert main(["inspect", ".", "--checkpoint", name]) == 0
    said = capsys.readouterr().out
    assert "continues 3-0, attempt 1" in said
    assert "leaves out 4-0, attempt 0: resources sql cannot capture it" in said
    assert "ckpt-000001" not in said


def test_of_one_rollout_every_place_is_named_and_nothing_that_stands_there(folder, capsys):
    before = snapshot(folder)
    assert main(["inspect", ".", "--rollout", "3-0"]) == 0
    said = capsys.readouterr().out
    assert "row        out_materialized_inputs.jsonl, line 4 (byte 138), 45 bytes" in said
    assert "sent       attempt 0: ckpt/dispatched.jsonl, line 2" in said
    assert "sent       attempt 1: ckpt/dispatched.jsonl, line 6" in said
    assert "ckpt-000002  continued at attempt 1" in said
    assert "environment env, attempt 1, at step 3: ckpt/ckpt-000002/participants/environment/env/" in said
    assert "restart    continues attempt 1 as attempt 2" in said
    assert '{"step"' not in said
    assert snapshot(folder) == before


def test_a_rollout_that_ended_is_found_in_output_and_sidecar(folder, capsys):
    main(["inspect", "out.jsonl", "--rollout", "1-0"])
    assert "result     attempt 0: out.jsonl, line 2 (byte" in capsys.readouterr().out
    main(["inspect", "out.jsonl", "--rollout", "2-0"])
    assert "failure agent_run_error  attempt 0: out_failures.jsonl, line 1" in capsys.readouterr().out
    failures = folder / "out_failures.jsonl"
    failures.write_text(failures.read_text().replace("}", ', "_ng_failure_message": "HTTP 500"}'))
    main(["inspect", "out.jsonl", "--rollout", "2-0"])
    assert "bytes\n             HTTP 500\n" in capsys.readouterr().out
    main(["inspect", "out.jsonl", "--rollout", "5-0"])
    why = "it was sent after that checkpoint, or refused by it"
    assert f"restart    from its input: {why}" in capsys.readouterr().out


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize(
    ("damage", "words", "code"),
    [
        (lambda ckpt: remove(ckpt / "ckpt-000002"), "LATEST names ckpt-000002, which is not there", 4),
        (lambda ckpt: (ckpt / "ckpt-000009").mkdir(), "unfinished: ckpt-000009/collection.json: No such", 0),
        (lambda ckpt: remove(ckpt / "LATEST"), "ckpt-000002  unknown", 0),
        (lambda ckpt: (ckpt / "LATEST").write_bytes(b"x"), "damaged: ckpt/LATEST: it is damaged", 4),
        (lambda ckpt: remove(ckpt / "ckpt-000001/collection.json"), "damaged: ckpt-000001/collection", 4),
        (lambda ckpt: (ckpt / "ckpt-000002/collection.json").write_bytes(b"{}"), "is damaged", 4),
        (lambda ckpt: remove(ckpt / "ckpt-000002/participants/agent"), "agent/manifest.json is not there", 4),
        (lambda ckpt: remove(next(ckpt.rglob("ckpt-000002/**/records-*"))), ".jsonl is not there", 4),
        (lambda ckpt: os.mkfifo(ckpt / "ckpt-000002/participants/agent/agent/x"), "ckpt-000002  latest", 0),
    ],
)  # fmt: skip
def test_damage_is_a_line_and_the_rest_is_told(folder, capsys, damage, words, code):
    damage(folder / "ckpt")
    assert main(["inspect", "ckpt"]) == code
    assert words in capsys.readouterr().out
    assert main(["inspect", "ckpt", "--rollout", "3-0"]) in {0, 4}
    said = capsys.readouterr()
    assert "rollout 3-0" in said.out
    assert said.err == ""


def test_a_record_that_is_nested_without_end_is_told_as_damage(folder, capsys):
    records = next((folder / "ckpt").rglob("ckpt-000002/**/records-*"))
    records.write_bytes(records.read_bytes().replace(b'{"step":3}', b"[" * 2000 + b"]" * 2000))
    assert main(["inspect", "ckpt", "--rollout", "3-0"]) == 4
    said = capsys.readouterr()
    assert "ckpt-000002 cannot be read" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (
            ["--checkpoint", "7"],
            "--checkpoint 7: ckpt does not hold it; it holds c-000001-00000001, c-000002",
        ),
        (
            ["--rollout", "9"],
            "of that name; here the first is 0-0 and the last 5-0 (TASK-REPEAT, both counted from 0)",
        ),
        (["3-0"], "'3-0' is one word too many: a rollout is named by --rollout ID"),
        (["--rollout", "3-0", "--checkpoint", "2"], "give one of them"),
    ],
)
def test_what_is_not_there_is_said_and_what_is_there_is_named(folder, capsys, tokens, words):
    assert main(["inspect", ".", *tokens]) == 2
    assert words in capsys.readouterr().err


def test_a_run_without_a_checkpoint_directory_has_nothing_to_inspect(folder, capsys):
    shutil.rmtree(folder / "ckpt")
    assert main(["inspect", "."]) == 2
    assert "--checkpoint-dir names one" in capsys.readouterr().err
    assert main(["inspect", ".", "--rollout", "1-0", "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert [one["what"] for one in run["rollout"]["lines"]] == ["result"]


def test_a_run_without_one_hides_no_checkpoint_of_those_beside_it(folder, capsys):
    for path in folder.glob("out*"):
        (folder / path.name.replace("out", "other", 1)).write_bytes(path.read_bytes())
    (folder / "other_run.json").write_bytes(
        (folder / "out_run.json").read_bytes().replace(RUN.encode(), b"9f9f")
    )
    assert main(["inspect", ".", "--json"]) == 0
    assert [run["directory"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["ckpt"]
