"""Cases about what a crash left in the output of an earlier run."""

from pathlib import Path
from typing import Final

from tests.cases.expect import Case, Grown, Run, Seen, Untouched
from tests.cases.participant import reply

LEFT_ALONE: Final = (
    "Damage in the middle is reported, never rewritten, and its row runs again: a record behind padding or a "
    "scrap may be whole by chance only."
)
HOLE_BYTES: Final = 64 << 20


def _tear_again(folder: Path) -> None:
    """A kill in the middle of the last append: its first 20 bytes are there."""
    output = folder / "out.jsonl"
    *lines, _ = output.read_bytes().splitlines(keepends=True)
    output.write_bytes(b"".join(lines) + b'{"reward":1.0,"text"')


def _widen_the_hole(folder: Path) -> None:
    output = folder / "out.jsonl"
    output.write_bytes(output.read_bytes().replace(b"\0" * 4096, b"\0" * HOLE_BYTES))


def _keeps_100_levels(seen: Seen) -> None:
    (line,) = seen.lines
    assert line.count(b"[") == 100


def _holds_no_null_reward(seen: Seen) -> None:
    (line,) = seen.failures
    assert b'"_ng_failure_message":"the reply holds NaN, which is not JSON"' in line
    assert b'"reward":null' not in line


EXPECT: Final = {
    "B001": Case(
        runs=(
            Run(
                process=True,
                exit_code=0,
                says=(
                    "Dropped a truncated final line (20 bytes) from {output}",
                    "kept in {folder}/out_torn.jsonl",
                ),
                sent="d",
                disk=Grown(cut=20, output="d"),
                counts={"succeeded": 4, "failed": 0, "damaged": 0},
            ),
            Run(
                change=_tear_again,
                exit_code=0,
                says=("Dropped a truncated final line (20 bytes) from {output}",),
                sent="d",
                sent_before="d",
                disk=Grown(cut=20, output="d"),
                counts={"succeeded": 4, "failed": 0, "damaged": 0},
            ),
            Run(
                exit_code=0,
                says=("4 rows already done (in main jsonl)",),
                disk=Grown(),
                counts={"succeeded": 4, "sends": 0},
            ),
        ),
        choice="d runs as attempt 0: the scrap does not say which attempt it was of.",
    ),
    "B003": Case(
        runs=(
            Run(
                exit_code=0,
                says=("Resumed from cache. Found:", "2 rows already done", "Dropped a truncated final line"),
                sent="c d",
                disk=Grown(cut=68, output="c d"),
                counts={"succeeded": 4},
            ),
        ),
        choice="The run is neither: it is continued.",
    ),
    "B005": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: ", "Damaged lines: 1"),
                sent="d",
                disk=Grown(output="d"),
                counts={"succeeded": 4, "damaged": 1},
            ),
        )
    ),
    "B006": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: not a whole JSON object",),
                sent="b d",
                disk=Grown(output="b d"),
                counts={"succeeded": 4, "damaged": 1},
            ),
        ),
        choice=LEFT_ALONE,
    ),
    "B008": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: ", "{output.at[3]}: not a whole JSON object"),
                sent="b d",
                disk=Grown(output="b d"),
                counts={"succeeded": 4, "damaged": 2},
            ),
            Run(
                folder="wide",
                change=_widen_the_hole,
                exit_code=0,
                says=("{output.at[2]}: a hole of NUL bytes", "{output.at[3]}: not a whole JSON object"),
                sent="b d",
                disk=Grown(output="b d"),
                counts={"succeeded": 4, "damaged": 2},
                peak_below=HOLE_BYTES // 4,
            ),
        )
    ),
    "B010": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: not a whole JSON object",),
                sent="b c d",
                disk=Grown(output="b c d"),
                counts={"succeeded": 4, "damaged": 1},
            ),
            Run(
                folder="full disk",
                earlier="none",
                flags=("-c", "1"),
                text="x" * 4000,
                file_limit=5000,
                exit_code=1,
                says=("cannot append to {output}: No space left on device",),
                sent="a b",
                disk=Grown(output="a"),
            ),
            Run(
                folder="full disk",
                flags=("-c", "1"),
                exit_code=0,
                says=("1 rows already done",),
                sent="b c d",
                sent_before="b",
                disk=Grown(output="b c d"),
                counts={"succeeded": 4, "damaged": 0},
            ),
        ),
        choice=LEFT_ALONE,
    ),
    "B011": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: not a whole JSON object", "{output.at[3]}: not a whole JSON object"),
                sent="b c",
                disk=Grown(output="b c"),
                counts={"succeeded": 4, "damaged": 2},
                process=True,
                rival=Run(
                    exit_code=4,
                    says=("{output} is being written by another collector", "(--wait-for-lock TIME)"),
                    disk=Untouched(),
                ),
            ),
        ),
        choice="A second collector is refused with exit code 4, which is that of every refusal.",
    ),
    "B013": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: not a whole JSON object", "utf-8"),
                sent="b d",
                disk=Grown(output="b d"),
                counts={"succeeded": 4, "damaged": 1},
            ),
        ),
        choice="Bad UTF-8 is damage: nothing of ours writes it, and most readers give up over it.",
    ),
    "B015": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: not a whole JSON object",),
                sent="b",
                disk=Grown(output="b"),
                counts={"succeeded": 2, "damaged": 1},
            ),
            Run(
                folder="reply",
                earlier="none",
                answers={"a": reply(b'{"reward":1.0,"text":"\\ud800"}')},
                exit_code=0,
                says=("agent_run_error 1",),
                sent="a b",
                disk=Grown(output="b", failures="a:agent_run_error"),
                counts={"succeeded": 1, "failed": 1},
            ),
        ),
        choice=(
            "A lone surrogate is damage, in our output as in a reply, where it is never written as a result: "
            "most readers of results give up over it."
        ),
    ),
    "B016": Case(
        runs=(
            Run(
                answers={"a": "reply.http"},
                exit_code=3,
                says=("not one row succeeded", "agent_run_error 1"),
                sent="a",
                disk=Grown(failures="a:agent_run_error"),
                counts={"failed": 1},
                also=_holds_no_null_reward,
            ),
            Run(
                folder="old",
                earlier="out_from_json_dumps.jsonl",
                exit_code=0,
                says=("{output.at[1]}: not a whole JSON object",),
                sent="a",
                disk=Grown(output="a"),
                counts={"succeeded": 1, "damaged": 1},
            ),
        ),
        choice="A reply that holds NaN is a failure: its number is unknown, and no line of ours is not JSON.",
    ),
    "B018": Case(
        runs=(
            Run(
                process=True,
                answers={"a": "reply.http", "b": "reply_ok.http"},
                exit_code=0,
                says=("agent_run_error 1",),
                sent="a b",
                disk=Grown(output="b", failures="a:agent_run_error"),
                counts={"succeeded": 1, "failed": 1},
                also=_keeps_100_levels,
            ),
            Run(
                exit_code=0,
                says=("1 rows already done", "1 prior failure attempts"),
                sent="a@1",
                disk=Grown(output="a@1"),
                counts={"succeeded": 2, "damaged": 0},
            ),
        )
    ),
    "B021": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: row 0-0 has a result already: the first one counts",),
                sent="b",
                disk=Grown(output="b"),
                counts={"expected": 2, "succeeded": 2, "damaged": 1},
            ),
        )
    ),
    "B023": Case(
        runs=(
            Run(
                exit_code=0,
                says=("{output.at[2]}: row 1-0 holds a failure, not a result",),
                sent="b@1",
                disk=Grown(output="b@1"),
                counts={"succeeded": 2, "failed": 0},
            ),
        )
    ),
    "B056": Case(
        runs=(
            Run(
                exit_code=0,
                says=(
                    "2 rows already done",
                    "1 prior failure attempts (1 unique tasks) in sidecar",
                    "Dropped a truncated final line (40 bytes) from {output}",
                    "Dropped a truncated final line (15 bytes) from {failures}",
                ),
                sent="c d@1",
                disk=Grown(cut=40, failures_cut=15, output="c d@1"),
                counts={"succeeded": 4, "failed": 0, "damaged": 0},
            ),
        )
    ),
}
