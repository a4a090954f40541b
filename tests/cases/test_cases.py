"""Reports of other collectors' users, played against this one: one folder each, and what must happen."""

from pathlib import Path

import pytest

from tests.cases import input_data, own_output, restarting, resuming, wire_and_settings
from tests.cases.commands import has_new_worlds
from tests.cases.expect import Grown, Run, Untouched
from tests.cases.harness import DATA, play

EXPECT = (
    own_output.EXPECT | input_data.EXPECT | resuming.EXPECT | restarting.EXPECT | wire_and_settings.EXPECT
)


def _runs(name: str) -> list[Run]:
    runs = EXPECT[name].runs
    return [*runs, *(run.rival for run in runs if run.rival is not None)]


def _marked(name: str) -> object:
    marks = [pytest.mark.processes] if any(run.process or run.pid_1 for run in _runs(name)) else []
    if any(run.pid_1 for run in _runs(name)):
        impossible = pytest.mark.skipif(not has_new_worlds(), reason="no new process namespace is allowed")
        marks += [pytest.mark.root, impossible]
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [_marked(name) for name in sorted(EXPECT)])
def test_a_report_of_a_user_stays_answered(name: str, tmp_path: Path) -> None:
    play(name, EXPECT[name], tmp_path)


def test_every_folder_has_an_expectation_and_every_expectation_a_folder() -> None:
    assert sorted(EXPECT) == sorted(path.name for path in DATA.iterdir())


@pytest.mark.parametrize("name", sorted(EXPECT))
def test_every_run_of_a_case_is_held_to_bytes_on_disk_an_exit_code_and_a_message(name: str) -> None:
    assert _runs(name)
    for run in _runs(name):
        assert isinstance(run.disk, Grown | Untouched)
        assert isinstance(run.exit_code, int)
        assert run.says
        assert all(text.strip() for text in run.says)
        if EXPECT[name].checkpoints is not None:
            assert isinstance(run.disk, Untouched) or run.checkpoints is not None


@pytest.mark.parametrize("name", sorted(EXPECT))
def test_where_two_outcomes_are_offered_one_is_chosen_in_a_sentence(name: str) -> None:
    if " or " in (DATA / name / "expected.txt").read_text():
        assert EXPECT[name].choice.endswith(".")
