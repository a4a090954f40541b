"""Cases about going on: which rows run again, at which attempt, and what is never touched."""

from pathlib import Path
from typing import Final

from tests.cases.expect import Case, Grown, Run, Seen, Untouched

CLOSED: Final = b""


def _cut_the_rows(folder: Path) -> None:
    """As a kill left it: the materialised rows end behind a whole line."""
    first = (folder / "input.jsonl").read_bytes().partition(b"\n")[0]
    (folder / "out_materialized_inputs.jsonl").write_bytes(
        first.removesuffix(b"}") + b',"_ng_task_index":0,"_ng_rollout_index":0}\n'
    )


def _rows_are_whole_again(seen: Seen) -> None:
    rows = seen.after["out_materialized_inputs.jsonl"]
    assert rows.startswith(seen.before["out_materialized_inputs.jsonl"])
    assert rows.count(b"\n") == 2


def _lines_say_the_drift(seen: Seen) -> None:
    assert all(b'"_ng_accepted_drift":["model"]' in line for line in seen.lines)


EXPECT: Final = {
    "B029": Case(
        runs=(
            Run(
                exit_code=0,
                says=("2 rows already done", "2 rows that still need to be run"),
                sent="a b",
                disk=Grown(output="a b"),
                counts={"succeeded": 4},
            ),
        )
    ),
    "B040": Case(
        runs=(
            Run(
                exit_code=0,
                says=("1 rows already done",),
                sent="b",
                disk=Grown(output="b"),
                counts={"succeeded": 2},
            ),
        )
    ),
    "B043": Case(
        runs=(
            Run(
                flags=("--num-repeats", "4", "--resume"),
                exit_code=0,
                says=("4 original input rows", "1 rows already done"),
                sent="a a/1 a/3",
                disk=Grown(output="a a/1 a/3"),
                counts={"expected": 4, "succeeded": 4},
            ),
        )
    ),
    "B045": Case(
        runs=(
            Run(
                flags=("--resume", "never", "--max-attempts", "3"),
                exit_code=4,
                says=("{failures} holds rows of an earlier run", "--overwrite deletes them"),
                disk=Untouched(),
            ),
            Run(
                folder="resumed",
                exit_code=0,
                says=("1 hit max_attempts=3", "Failed: http_500 1"),
                disk=Grown(),
                counts={"failed": 1, "sends": 0},
            ),
            Run(
                flags=("--resume", "never", "--overwrite", "--max-attempts", "3"),
                exit_code=0,
                says=("Rows: 1 expected = 1 succeeded + 0 failed",),
                sent="a",
                disk=Grown(output="a", fresh=True),
                counts={"expected": 1, "succeeded": 1, "failed": 0},
            ),
        ),
    ),
    "B046": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: row 0-0 has a result already: the first one counts",),
                disk=Grown(),
                counts={"succeeded": 1, "damaged": 1, "sends": 0},
            ),
        )
    ),
    "B048": Case(
        runs=(
            Run(
                flags=("--model", "m1"),
                answers={"b": CLOSED},
                exit_code=0,
                says=("agent_request_failed 1",),
                sent="b",
                disk=Grown(failures="b:agent_request_failed"),
            ),
            Run(
                flags=("--model", "m2"),
                exit_code=4,
                says=("model changed since it began", "--accept-drift model"),
                disk=Untouched(),
            ),
            Run(
                flags=("--model", "m2", "--accept-drift", "model"),
                exit_code=0,
                says=("1 rows already done",),
                sent="b@1",
                disk=Grown(output="b@1"),
                counts={"succeeded": 2, "failed": 0},
                also=_lines_say_the_drift,
            ),
        )
    ),
    "B058": Case(
        runs=(
            Run(
                change=_cut_the_rows,
                exit_code=0,
                says=("the output has 1 rows that the input does not have, left alone: 2-0",),
                sent="b",
                disk=Grown(output="b"),
                counts={"expected": 2, "succeeded": 2},
                also=_rows_are_whole_again,
            ),
        )
    ),
}
