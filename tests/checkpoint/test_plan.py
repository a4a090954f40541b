"""What a restart continues, and as which attempt."""

from triocollect.checkpoint.plan import Tried, left_out_of_the_cut, plan
from triocollect.protocol.ids import EpisodeId, RowKey
from triocollect.protocol.manifests import Restarted
from triocollect.protocol.messages import RestoredEpisode

KEY = RowKey(0, 0)
ROW = EpisodeId("0-0", 1)


def planned(continued=(ROW,), **tried):
    return plan(continued, {"0-0": Tried(key=KEY, **tried)} if tried else {})


def test_a_row_in_flight_goes_on_as_its_next_attempt():
    made = planned(highest=1, sent=1)
    assert made.continued == {KEY: RestoredEpisode("0-0", 1, becomes=2)}
    assert made.becoming == {KEY: EpisodeId("0-0", 2)}


def test_attempts_used_since_the_checkpoint_are_not_used_again():
    assert planned(highest=7, sent=7).continued[KEY].becomes == 8


def test_the_checkpoints_own_attempt_is_used_whatever_the_files_say():
    assert planned(highest=0).continued[KEY].becomes == 2


def test_a_finished_row_is_not_continued():
    made = planned()
    assert (made.continued, made.left_out) == ({}, {ROW: "it is finished, or not among the rows"})


def test_a_row_that_failed_with_an_answer_since_starts_from_its_input():
    for replied in (1, 3):
        made = planned(highest=3, sent=3, replied=replied)
        assert made.continued == {}
        assert "failed with an answer since" in made.left_out[ROW]


def test_a_row_that_failed_with_an_answer_before_the_checkpoint_is_continued():
    assert planned(highest=1, sent=1, replied=0).continued


def test_a_row_that_was_given_up_without_an_answer_is_continued():
    assert planned(highest=1, sent=1, replied=None).continued


def test_what_was_sent_and_brought_no_answer_is_retired():
    assert planned((), highest=2, sent=2).to_retire == {KEY: EpisodeId("0-0", 2)}
    assert planned((), highest=2, sent=2, replied=1).to_retire == {KEY: EpisodeId("0-0", 2)}


def test_a_row_that_replied_is_never_named_in_a_retire():
    assert planned((), highest=2, sent=2, replied=2).to_retire == {}
    assert planned((), highest=2, replied=2).to_retire == {}


def test_after_lines_of_the_log_were_lost_no_row_goes_on_below_the_floor():
    rows = {"0-0": Tried(key=KEY, highest=1, sent=1)}
    assert plan([ROW], rows, floor=5).becoming == {KEY: EpisodeId("0-0", 5)}
    assert plan([ROW], rows, floor=1).becoming == {KEY: EpisodeId("0-0", 2)}


def test_attempts_that_another_output_may_have_used_are_left_out_and_nothing_is_retired_for_them():
    made = plan([ROW], {"0-0": Tried(key=KEY, highest=0)}, start=5)
    assert made.becoming == {KEY: EpisodeId("0-0", 5)}
    assert made.to_retire == {}


def test_after_lines_of_the_log_were_lost_everything_below_the_floor_is_retired():
    def retired(**tried):
        return plan([], {"0-0": Tried(key=KEY, **tried)}, floor=5).to_retire.get(KEY)

    assert retired(highest=1, sent=1) == EpisodeId("0-0", 4)
    assert retired(highest=1) == EpisodeId("0-0", 4)
    assert retired(highest=1, sent=1, replied=1) == EpisodeId("0-0", 4)
    assert retired(highest=7, sent=7) == EpisodeId("0-0", 7)
    assert retired(highest=5, sent=5, replied=5) is None


def test_why_rows_under_way_are_in_no_checkpoint_is_told_once_for_each_reason_and_only_of_unfinished_ones():
    tried = {f"{task}-0": Tried(key=RowKey(task, 0), highest=0, sent=0) for task in range(9)}
    tried["8-0"] = Tried(key=RowKey(8, 0), highest=0, sent=0, replied=0)
    restarted = [Restarted(f"{task}-0", 0, reason="maze forgets") for task in (*range(7), 8, 11)]
    told = left_out_of_the_cut([*restarted, Restarted("7-0", 0, reason="its server restarted")], tried)
    assert [sentence.partition(" rows")[0] for sentence in told] == ["7", "1"]
    assert told[0].endswith("(0-0, 1-0, 2-0, 3-0, 4-0 and others): maze forgets")
    assert told[1].endswith("(7-0): its server restarted")
