"""What goes on is what was begun: no checkpoint of another input, and no record of another task."""

import itertools
import json

import trio

from fuzz.files.left import CHECKPOINTS, leave
from fuzz.invariants import holds
from triocollect.checkpoint.ladder import find_checkpoint
from triocollect.participant import Admission, EpisodeId
from triocollect.servers.environment.episodes import Episodes
from triocollect.servers.environment.run_requests import parse_run

OURS = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "counter"}, "expected_change": 3}


def test_a_checkpoint_is_found_for_its_own_input_and_output_alone(tmp_path):
    folder = tmp_path / "run"
    next(seed for seed in itertools.count(1) if leave(folder, seed).named("collection.json"))
    root = folder / CHECKPOINTS
    said = find_checkpoint(root).checkpoint.collection
    own = {"input_sha256": said.input_sha256, "output": said.output}
    assert find_checkpoint(root, **own).checkpoint is not None
    for name, value in own.items():
        found = find_checkpoint(root, **own | {name: "f" * len(value)}).checkpoint
        holds(13, found is None, f"rows go on from a checkpoint that has another {name}")


def asked_for(**fields):
    return parse_run(json.dumps(OURS | fields).encode(), ["counter"])


def test_a_record_is_taken_up_by_its_own_task_alone():
    first = Episodes("environment", Admission())
    first.begin(asked_for(), continued=False)
    (record,) = first.export(frozenset({EpisodeId("0-0", 0)}))
    for change, is_ours in (({}, True), ({"expected_change": 4}, False)):
        later = Episodes("environment", Admission())
        trio.run(later.install, [record], {EpisodeId("0-0", 0): EpisodeId("0-0", 1)})
        begun = later.begin(asked_for(_ng_attempt_index=1, **change), continued=True)
        if is_ours:
            assert begun in later.under_way.values()
        else:
            holds(13, not later.under_way, f"a row that asks for {change} goes on from another task's record")
