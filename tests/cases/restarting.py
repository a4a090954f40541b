"""Cases about what a restart finds: stale process ids, and checkpoints that are not what they were."""

import os
from pathlib import Path
from signal import SIGTERM, SIGUSR1
from typing import Final

from attrs import evolve

from tests.cases.expect import Case, Checkpoints, Grown, Run, Untouched

_TWO_OF_FOUR: Final = {"expected": 4, "succeeded": 4, "succeeded_now": 2, "failed": 0}
_ONE: Final = Run(
    exit_code=0,
    says=("Rows: 1 expected = 1 succeeded",),
    sent="a",
    disk=Grown(output="a"),
    counts={"succeeded": 1},
    checkpoints=Checkpoints(),
)


def _one_row(**changes: object) -> Run:
    return evolve(_ONE, **changes)


def _go_on(says: tuple[str, ...], checkpoints: Checkpoints, **more: object) -> Run:
    """`a` and `b` are finished, `c` goes on from a checkpoint, `d` starts from its input."""
    run = Run(
        exit_code=0,
        says=says,
        sent="c@1 d@1",
        continued="c@1",
        disk=Grown(output="c@1 d@1"),
        counts=_TWO_OF_FOUR,
        checkpoints=checkpoints,
    )
    return evolve(run, **more)


def _killed_before_a_line(folder: Path) -> None:
    """As the restart before left it when it was killed with both rows in flight."""
    output = folder / "out.jsonl"
    output.write_bytes(b"".join(output.read_bytes().splitlines(keepends=True)[:2]))


def _all_of_one_second(folder: Path) -> None:
    for path in [folder / "ckpt", *(folder / "ckpt").rglob("*")]:
        os.utime(path, (1_700_000_000, 1_700_000_000))


_DAMAGED: Final = "rows go on from ckpt-000001, the newest checkpoint that is whole"
_FROM_1: Final = "1 rows go on from checkpoint c-000001"
_FROM_3: Final = "1 rows go on from checkpoint c-000003"

EXPECT: Final = {
    "B038": Case(
        checkpoints="ckpt",
        runs=(
            _go_on(
                (
                    "ckpt-000002 was passed over: ",
                    "ckpt-000002/participants/environment/env/manifest.json is not there",
                    _DAMAGED,
                    _FROM_1,
                ),
                Checkpoints(latest=2, folders="1 2"),
            ),
        ),
    ),
    "B053": Case(
        checkpoints="ckpt",
        runs=(
            Run(
                flags=("--resume", "never"),
                exit_code=4,
                says=("{output}", "hold rows of an earlier run", "--overwrite deletes them"),
                disk=Untouched(),
            ),
            Run(
                flags=("--resume", "never", "--overwrite"),
                exit_code=0,
                says=("Rows: 4 expected = 4 succeeded",),
                sent="a b c d",
                disk=Grown(output="a b c d", fresh=True),
                counts={"succeeded": 4, "succeeded_now": 4},
                checkpoints=Checkpoints(),
            ),
        ),
    ),
    "B083": Case(
        checkpoints="ckpt",
        runs=(_ONE,),
        choice="It starts: only the lock says whether somebody collects here, never a process id.",
    ),
    "B085": Case(checkpoints="ckpt", runs=(_ONE,)),
    "B087": Case(
        checkpoints="ckpt",
        runs=(
            _one_row(
                pid_1=True,
                signal=SIGTERM,
                exit_code=75,
                says=("rows in flight go on from where they were cut",),
                disk=Grown(),
                counts={"succeeded": 0, "left": 1},
                checkpoints=Checkpoints(latest=2, folders="2"),
            ),
            _one_row(
                pid_1=True,
                sent="a@1",
                continued="a@1",
                disk=Grown(output="a@1"),
                checkpoints=Checkpoints(latest=2, folders="2"),
            ),
        ),
    ),
    "B088": Case(
        checkpoints="ckpt",
        runs=(_go_on((_FROM_1,), Checkpoints(latest=4, folders="1 4"), signal=SIGUSR1),),
    ),
    "B090": Case(
        checkpoints="ckpt",
        runs=(
            _go_on(
                (
                    "ckpt-000005 was passed over: ckpt-000005/collection.json is not there",
                    "no checkpoint is left to go on from: rows that were under way start from their input",
                ),
                Checkpoints(latest=5, folders="5"),
                continued="",
            ),
        ),
    ),
    "B093": Case(
        checkpoints="ckpt",
        runs=(_go_on((_FROM_1,), Checkpoints(latest=3, folders="1 3"), signal=SIGUSR1),),
    ),
    "B097": Case(
        checkpoints="ckpt",
        runs=(
            _go_on(
                ("ckpt-000002/collection.json is not the one that LATEST names", _DAMAGED, _FROM_1),
                Checkpoints(latest=2, folders="1 2"),
            ),
            _go_on(
                ("ckpt-000002/collection.json is not the one that LATEST names", _DAMAGED, _FROM_1),
                Checkpoints(latest=2, folders="1 2"),
                change=_killed_before_a_line,
                sent="c@2 d@2",
                continued="c@2",
                disk=Grown(output="c@2 d@2"),
            ),
        ),
    ),
    "B098": Case(
        checkpoints="ckpt",
        runs=(
            _go_on(
                (
                    "LATEST was passed over: it is empty",
                    "ckpt-000003 was passed over: ckpt-000003/collection.json is damaged",
                    "ckpt-000002 was passed over: ckpt-000002/collection.json is damaged",
                    _DAMAGED,
                    _FROM_1,
                ),
                Checkpoints(damaged=True, folders="1 2 3"),
            ),
        ),
    ),
    "B100": Case(
        checkpoints="ckpt",
        runs=(_go_on((_FROM_3,), Checkpoints(latest=52, folders="3 52"), signal=SIGUSR1),),
        choice="It is gone: a folder above LATEST was never published, and the prune removes it.",
    ),
    "B102": Case(
        checkpoints="ckpt",
        runs=(
            _go_on(
                ("2 rows go on from checkpoint c-000003",),
                Checkpoints(latest=5, folders="3 5"),
                change=_all_of_one_second,
                signal=SIGUSR1,
                continued="c@1 d@1",
            ),
        ),
    ),
    "B103": Case(
        checkpoints="ckpt",
        runs=(
            _go_on(
                ("1 rows go on from checkpoint c-000008",),
                Checkpoints(latest=10, folders="8 10"),
                signal=SIGUSR1,
            ),
        ),
    ),
    "B105": Case(
        checkpoints="moved/elsewhere",
        runs=(_go_on((_FROM_1,), Checkpoints(latest=1, folders="1")),),
    ),
}
