"""A run that begins afresh forgets its checkpoints for good: no cut of the power brings a LATEST back."""

import random
import shutil

import pytest

from fuzz.disk.calls import watched
from fuzz.disk.cuts import Cuts
from fuzz.disk.results import DIRECTORY, named_in
from fuzz.disk.storage import Disk, Recorder
from fuzz.invariants import all_hold
from tests.checkpoint.checkpoints import a_collection, take
from triocollect.checkpoint.names import LATEST, folder_name
from triocollect.checkpoint.store import Store


def forget(folder, checkpoints):
    """All file calls by which so many checkpoints, or a LATEST that leads to none, are forgotten."""
    (root := folder / DIRECTORY).mkdir()
    store = Store(root)
    for _ in range(max(1, checkpoints)):
        newest = take(store)
    if not checkpoints:
        shutil.rmtree(root / folder_name(newest))
    recorder = Recorder(folder)
    with watched(folder, recorder):
        assert store.forget(a_collection(1, (), "c").run) == ()
    return recorder


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_the_power_may_go_while_checkpoints_are_forgotten_and_after(tmp_path, checkpoints):
    recorder = forget(tmp_path, checkpoints)
    disk, cuts = Disk(recorder.base, recorder.everything), Cuts(random.Random(1))
    for operation, call in recorder.log:
        disk.do(operation)
        for state in cuts.states(disk) if checkpoints else []:
            fault = named_in(state.files).fault
            all_hold((3, 15), fault is None, f"a cut at {call} leaves a LATEST that leads nowhere: {fault}")
    back = [state for state in cuts.states(disk) if f"{DIRECTORY}{LATEST}" in state.files]
    all_hold((3, 15), not back, "LATEST was forgotten, and a cut of the power brings it back")
