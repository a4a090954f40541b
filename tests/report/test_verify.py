"""Whether what a run left adds up, from small folders that were made by hand."""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from triocollect.errors import DamageError
from triocollect.protocol.files import RunFile
from triocollect.report.account import read_account
from triocollect.report.verify import Checkpoint, Verified, saved, verify


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


def row(task: int) -> dict[str, object]:
    return {"_ng_task_index": task, "_ng_rollout_index": 0}


def result(task: int, attempt: int = 0, tools: int = 2) -> dict[str, object]:
    """A counter's: a call for each tool and one for the answer, a token each."""
    turns = [{"type": "function_call"}, {"type": "function_call_output"}] * tools
    response = {"output": [*turns, {"type": "message"}], "usage": {"output_tokens": tools + 1}}
    named = {**row(task), "_ng_attempt_index": attempt}
    return {"reward": 1.0, "effects": tools, "response": response, **named}


def effects(task: int, attempt: int, *numbers: int, seed: int = 7) -> list[dict[str, object]]:
    return [
        {
            "rollout_id": f"{task}-0",
            "attempt": attempt,
            "effect": "increment" if number else "seed",
            "arguments": {},
            "state": {"seed": seed, "value": 0, "effects": number},
        }
        for number in numbers
    ]


def calls(key: str, count: int) -> list[dict[str, object]]:
    call = {"capture_key": key, "finished": True, "input_tokens": 9, "output_tokens": 1}
    return [call] * count


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Row 0 ran through; row 1 was cut after its first effect, with a call under way, and went on."""
    rows = lines(row(0), row(1))
    (tmp_path / "out_materialized_inputs.jsonl").write_bytes(rows)
    run = RunFile(run="r1", created="", rows=2, rows_sha256=hashlib.sha256(rows).hexdigest(), fields={})
    (tmp_path / "out_run.json").write_bytes(msgspec.json.encode(run))
    (tmp_path / "out.jsonl").write_bytes(lines(result(0), result(1, attempt=1)))
    (tmp_path / "effects").mkdir()
    counter = [*effects(0, 0, 0, 1, 2), *effects(1, 0, 0, 1), *effects(1, 1, 2)]
    (tmp_path / "effects" / "counter.jsonl").write_bytes(lines(*counter))
    spent = [*calls("0-0", 3), *calls("1-0", 2), *calls("1-0-a1", 2)]
    (tmp_path / "effects" / "inference.jsonl").write_bytes(lines(*spent))
    return tmp_path


def verified(folder: Path, *checkpoints: Checkpoint) -> Verified:
    return verify([folder / "out.jsonl"], checkpoints, folder / "effects")


def faults(found: Verified) -> list[str]:
    return [fault for fact in found.facts for fault in fact.faults]


def test_a_run_that_adds_up_says_what_its_checkpoint_was_good_for(folder: Path) -> None:
    found = verified(folder, Checkpoint(directory="ck", checkpoint_id="c-1", continued=("1-0",), bytes=9))
    assert found.holds, found.text()
    account = found.account
    assert account is not None
    assert (account.results, account.continued, account.restarted) == (2, 1, 0)
    assert (account.effects, account.carried, account.lost) == (4, 1, 0)
    assert account.calls is not None
    assert (account.calls.made, account.calls.kept, account.calls.again) == ((7, 7), (1, 1), (1, 1))
    assert account.calls.from_input == (2, 2)
    assert list(saved(account)) == [
        "1 row went on from where they were cut, with 1 effect done before; 0 began anew",
        "policy calls not repeated: 1 (1 token); made again: 1 (1 token)",
        "from the input it would have been 2 (2 tokens) made again, of 7 (7 tokens) in all",
    ]


def test_people_read_every_fact_and_programs_the_figures(folder: Path) -> None:
    found = verified(folder)
    assert found.text().count("\nyes  ") == 4
    told = json.loads(found.as_json())
    assert (told["holds"], told["outputs"][0]["left"], told["account"]["carried"]) == (True, 0, 1)
    (folder / "out.jsonl").write_bytes(lines(result(0), result(0)))
    assert "\nNO   no row has two results\n" in verified(folder).text()
    assert not json.loads(verified(folder).as_json())["holds"]


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (result(0), "1 result of rows that have one"),
        (result(5), "1 row that the data set does not have"),
        ({**row(1), "_ng_failure_class": "agent_run_error"}, "holds a failure, not a result"),
        ({"reward": 1.0}, "line 3"),
    ],
)
def test_a_line_too_many_is_named(folder: Path, more: object, fault: str) -> None:
    with (folder / "out.jsonl").open("ab") as output:
        output.write(lines(more))
    assert fault in "\n".join(faults(verified(folder)))


def test_rows_that_changed_since_the_run_began_are_named(folder: Path) -> None:
    (folder / "out_materialized_inputs.jsonl").write_bytes(lines(row(0), {**row(1), "more": 1}))
    assert "other bytes than out_run.json says" in "\n".join(faults(verified(folder)))
    (folder / "out_run.json").write_bytes(b"{")
    assert "out_run.json is damaged" in "\n".join(faults(verified(folder)))
    (folder / "out_run.json").unlink()
    found = verified(folder)
    assert found.holds, "another program's output has no such file"
    assert (
        f"?    {found.facts[2].says}\n       cannot be judged: {folder}/out_run.json is not there"
        in found.text()
    )


def test_an_effect_that_is_missing_or_was_done_again_is_named(folder: Path) -> None:
    file = folder / "effects" / "counter.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"effects": 1}', b'"effects": 2}', 1))
    assert "0-0: effects were done twice: 0, 2, 2" in faults(verified(folder))
    file.write_bytes(whole + lines(*effects(1, 2, 2)))
    assert faults(verified(folder)) == [
        "1-0-a1: a later attempt than the one of the result did something too"
    ]


def test_a_row_that_began_anew_costs_what_it_had_done(folder: Path) -> None:
    anew = [*effects(1, 0, 0, 1), *effects(1, 1, 0, 1, 2, seed=8)]
    (folder / "effects" / "counter.jsonl").write_bytes(lines(*anew))
    (folder / "effects" / "inference.jsonl").write_bytes(lines(*calls("1-0", 2), *calls("1-0-a1", 3)))
    account = read_account(folder / "out.jsonl", folder / "effects")
    assert (account.continued, account.restarted, account.carried, account.lost) == (0, 1, 0, 1)
    assert account.calls is not None
    assert account.calls.kept == (0, 0)


def test_without_the_worker_s_account_nothing_is_said_of_calls(folder: Path) -> None:
    (folder / "effects" / "inference.jsonl").unlink()
    account = read_account(folder / "out.jsonl", folder / "effects")
    assert account.calls is None
    assert "policy calls" not in verified(folder).text()


def test_damage_in_the_worker_s_account_is_no_guess(folder: Path) -> None:
    with (folder / "effects" / "inference.jsonl").open("ab") as file:
        file.write(b'{"capture_key": "-a0", "output_tokens": 1}\n')
    with pytest.raises(DamageError, match=r"inference.jsonl, line 8"):
        verified(folder)


def test_rollouts_go_by_the_names_that_the_data_gives_them(folder: Path) -> None:
    rows = lines(row(0), {**row(1), "_ng_rollout_id": "chess"})
    (folder / "out_materialized_inputs.jsonl").write_bytes(rows)
    for name in ("counter", "inference"):
        file = folder / "effects" / f"{name}.jsonl"
        file.write_bytes(file.read_bytes().replace(b'"1-0', b'"chess'))
    found = verified(folder, Checkpoint(directory="ck", checkpoint_id="c-1", continued=("chess",)))
    assert found.account is not None
    assert (found.account.continued, found.account.faults) == (1, ())
    assert [fact.holds for fact in found.facts] == [True, True, False, True, True, True]


def test_a_checkpoint_of_other_rows_and_a_damaged_one_are_named(folder: Path) -> None:
    found = verified(folder, Checkpoint(directory="ck", checkpoint_id="c-1", continued=("9-0",)))
    assert faults(found) == ["9-0 is no row of it"]
    assert "c-1: 1 row in flight can be continued, 0 would start" in found.text()
    found = verified(folder, Checkpoint(directory="ck", faults=("LATEST is damaged",)))
    assert faults(found) == ["LATEST is damaged"]
    assert "no checkpoint that can be used" in found.text()
