"""What a report says of work that an earlier run had begun."""

import msgspec
import pytest

from tests.checkpoint.checkpoints import a_collection, commit
from triocollect.checkpoint.plan import Plan
from triocollect.checkpoint.whole import Whole
from triocollect.collector.continuing import calls_saved, continued_of
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.protocol.messages import RestoredEpisode
from triocollect.report.run_report import Continued

CUT = {RowKey(task, 0): RestoredEpisode(f"{task}-0", 0, becomes=1) for task in (1, 2)}
SENT = {RowKey(task, 0): EpisodeId(f"{task}-0", 0) for task in (1, 2, 3)}
OUTCOME = CheckpointOutcome(
    operation=1, checkpoint_id="c-1", published=True, continued=2, work_s=7.5, undelivered=1
)


@pytest.fixture
def root(tmp_path):
    outcomes = [msgspec.structs.replace(OUTCOME, checkpoint_id="c-0", work_s=1.0), OUTCOME]
    (tmp_path / "outcomes.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in outcomes))
    return tmp_path


def test_rows_that_go_on_come_with_the_work_that_the_checkpoint_kept(root):
    told = continued_of(root, "c-1", Plan(CUT, {}, SENT), 2)
    assert told == Continued(rows=2, anew=1, work_s=7.5, calls_again=1)


def test_where_some_have_ended_since_the_cut_the_work_is_not_known(root):
    fewer = {key: episode for key, episode in CUT.items() if key.task == 1}
    assert continued_of(root, "c-1", Plan(fewer, {}, {}), 1) == Continued(rows=1, anew=0)


def test_a_restore_that_failed_and_no_checkpoint_at_all_begin_everything_anew(root):
    assert continued_of(root, "c-1", Plan(CUT, {}, SENT), 0) == Continued(rows=0, anew=3)
    assert continued_of(root, None, Plan({}, {}, SENT), 0) == Continued(rows=0, anew=3)


def test_an_outcome_that_is_lost_or_counts_no_calls_is_no_obstacle(root):
    assert continued_of(root, "c-2", Plan(CUT, {}, {}), 2) == Continued(rows=2, anew=0)
    silent = msgspec.structs.replace(OUTCOME, undelivered=msgspec.UNSET)
    (root / "outcomes.jsonl").write_bytes(msgspec.json.encode(silent) + b"\n")
    assert continued_of(root, "c-1", Plan(CUT, {}, {}), 2) == Continued(rows=2, anew=0, work_s=7.5)


def test_a_run_that_finds_nothing_begun_says_nothing(root):
    assert continued_of(root, "c-1", Plan({}, {}, {}), 0) is None


def test_what_was_left_out_at_the_cut_is_lost_with_its_seconds(root):
    left_out = msgspec.structs.replace(OUTCOME, restarted=1, lost_s=4.5)
    (root / "outcomes.jsonl").write_bytes(msgspec.json.encode(left_out) + b"\n")
    assert continued_of(root, "c-1", Plan(CUT, {}, SENT), 2).lost_s == 4.5
    assert continued_of(root, "c-1", Plan(CUT, {}, {}), 2).lost_s is None, "that row has ended since"


def test_calls_that_are_answered_in_a_checkpoint_are_not_made_again(tmp_path):
    folder = tmp_path / "ckpt-000001"
    folder.mkdir()
    part = commit(folder, "c-1", "model", "policy", episodes=(EpisodeId("1-0"), EpisodeId("2-0")))
    whole = Whole(folder, a_collection(1, [part], "c-1"), 0)
    assert calls_saved(whole, {"1-0", "2-0"}) is None, "a model server of somebody else's"
    records = next(folder.rglob("records-*"))
    records.write_bytes(
        b'{"rollout_id":"1-0","state":{"rows":[{},{}]}}\n{"rollout_id":"2-0","state":{"rows":[{}]}}\n'
    )
    assert calls_saved(whole, {"1-0", "2-0"}) == 3
    assert calls_saved(whole, {"1-0"}) == 2
    assert calls_saved(Whole(folder, a_collection(1, [], "c-1"), 0), {"1-0"}) is None
