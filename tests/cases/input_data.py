"""Cases about the data set: what is read, what is refused, and who is who."""

from pathlib import Path
from typing import Final

from tests.cases.expect import Case, Grown, Run, Seen, Untouched


def _mark_line_2(folder: Path) -> None:
    path = folder / "input.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n{", b"\n\xef\xbb\xbf{"))


def _no_mark_is_sent(seen: Seen) -> None:
    assert not any(b"\xef\xbb\xbf" in request.body for request in seen.requests)
    assert b"\xef\xbb\xbf" not in seen.after["out_materialized_inputs.jsonl"]


def _kill_after_the_first(folder: Path) -> None:
    output = folder / "out.jsonl"
    output.write_bytes(output.read_bytes().partition(b"\n")[0] + b"\n")


EXPECT: Final = {
    "B024": Case(
        runs=(
            Run(
                exit_code=0,
                says=("Rows: 2 expected = 2 succeeded",),
                sent="a b",
                disk=Grown(output="a b"),
                counts={"expected": 2, "succeeded": 2},
                also=_no_mark_is_sent,
            ),
            Run(
                folder="inside",
                change=_mark_line_2,
                exit_code=2,
                says=("{input.at[2]}: ",),
                disk=Untouched(),
            ),
        )
    ),
    "B026": Case(
        runs=(
            Run(
                process=True,
                exit_code=2,
                says=("{input.at[2]}: ", "a list"),
                disk=Untouched(),
            ),
        )
    ),
    "B028": Case(
        runs=(
            Run(
                exit_code=0,
                says=("Rows: 2 expected = 2 succeeded",),
                sent="a b",
                disk=Grown(output="a b"),
                counts={"expected": 2, "succeeded": 2},
            ),
            Run(
                folder="empty",
                input="empty.jsonl",
                exit_code=0,
                says=("the input has no rows: {input}", "Rows: 0 expected", "nothing was written"),
                disk=Untouched(),
                counts={"expected": 0, "run": None},
            ),
            Run(
                folder="required",
                input="empty.jsonl",
                flags=("--require-complete",),
                exit_code=3,
                says=("the input has no rows: {input}", "as was required"),
                disk=Untouched(),
                counts={"expected": 0},
            ),
        )
    ),
    "B031": Case(
        runs=(
            Run(
                input="cut.jsonl.gz",
                exit_code=2,
                says=("{input}", "the gzip file is damaged or cut short", "fetch it again"),
                disk=Untouched(),
            ),
            Run(
                folder="checksum",
                input="bad_crc.jsonl.gz",
                exit_code=2,
                says=("{input}", "the gzip file is damaged or cut short (CRC check failed"),
                disk=Untouched(),
            ),
            Run(
                folder="members",
                input="two_members.jsonl.gz",
                exit_code=0,
                says=("Rows: 2 expected = 2 succeeded",),
                sent="a b",
                disk=Grown(output="a b"),
            ),
        ),
        choice="Gzip is read through all its members: refusing it loses a way to hold large data sets.",
    ),
    "B033": Case(runs=(Run(exit_code=2, says=("{input.at[5]}: ",), disk=Untouched()),)),
    "B034": Case(
        with_ids=True,
        runs=(
            Run(
                process=True, exit_code=2, says=("{input.at[1]}: half of a surrogate pair",), disk=Untouched()
            ),
            Run(exit_code=2, says=("{input.at[1]}: half of a surrogate pair",), disk=Untouched()),
        ),
    ),
    "B036": Case(
        runs=(
            Run(
                exit_code=0,
                says=("Rows: 3 expected = 3 succeeded",),
                sent="same same/1 same/2",
                disk=Grown(output="same same/1 same/2"),
                flags=("-c", "1"),
            ),
            Run(
                change=_kill_after_the_first,
                exit_code=0,
                says=("1 rows already done", "2 rows that still need to be run"),
                sent="same/1 same/2",
                sent_before="same/1 same/2",
                disk=Grown(output="same/1 same/2"),
                counts={"expected": 3, "succeeded": 3},
            ),
        )
    ),
    "B050": Case(
        with_ids=True,
        runs=(
            Run(
                exit_code=2,
                says=("{input}: lines 1 and 3 have the same _ng_rollout_id 'a'",),
                disk=Untouched(),
            ),
        ),
    ),
}
