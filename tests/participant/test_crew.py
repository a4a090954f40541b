"""Which report of a worker counts, what blocks, and who is a restart."""

from triocollect.participant.workers.crew import Crew
from triocollect.participant.workers.frames import Report
from triocollect.participant.workers.owner import owner_of
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Blocker

R0, R1 = EpisodeId("r", 0), EpisodeId("r", 1)


def a_crew(*here, size=2):
    crew = Crew(size)
    for number in here or crew.numbers:
        crew.joined(number)
    return crew


def blockers(crew):
    return [(one.key, one.why) for one in crew.report().blockers]


def closed_and_reported(crew):
    crew.close()
    for number in crew.numbers:
        crew.reported(number, Report(generation=crew.generation, sequence=crew.generation))


def test_a_worker_that_has_not_reported_since_the_close_blocks():
    crew = a_crew()
    crew.reported(1, Report(generation=0, sequence=1))
    crew.close()
    why = "it has not reported since the close"
    assert blockers(crew) == [("worker 1", why), ("worker 2", why)]
    crew.reported(1, Report(generation=1, sequence=2))
    crew.reported(2, Report(generation=1, sequence=1))
    assert blockers(crew) == []


def test_a_report_of_an_earlier_close_says_nothing_of_this_one():
    crew = a_crew()
    closed_and_reported(crew)
    crew.open()
    crew.close()
    crew.reported(1, Report(generation=1, sequence=2))
    assert ("worker 1", "it has not reported since the close") in blockers(crew)


def test_of_two_reports_the_later_one_counts_in_whatever_order_they_come():
    crew = a_crew(size=1)
    crew.close()
    blocked = Report(generation=1, sequence=3, blockers=(Blocker("r", "a step"),), blocker_count=1)
    crew.reported(1, blocked)
    crew.reported(1, Report(generation=1, sequence=2))
    assert blockers(crew) == [("r", "a step")]


def test_a_report_of_a_worker_that_is_gone_counts_for_nothing():
    crew = a_crew()
    crew.lost(2)
    crew.reported(2, Report(generation=0, sequence=9, live=True, served=True))
    assert not crew.live()
    assert not crew.served


def test_a_worker_lost_while_open_blocks_only_until_another_has_taken_its_place():
    crew = a_crew()
    crew.lost(2)
    crew.close()
    crew.reported(1, Report(generation=1, sequence=1))
    assert blockers(crew) == [("worker 2", "it is not there")]
    crew.joined(2)
    crew.reported(2, Report(generation=1, sequence=1))
    assert blockers(crew) == []


def test_a_worker_lost_while_closed_blocks_until_the_opening():
    crew = a_crew()
    closed_and_reported(crew)
    crew.lost(2)
    crew.joined(2)
    crew.reported(2, Report(generation=1, sequence=1))
    assert blockers(crew) == [("worker 2", "it was lost while closed")]
    assert crew.gap() == 2
    crew.open()
    closed_and_reported(crew)
    assert blockers(crew) == []


def test_what_had_a_part_on_a_lost_worker_is_a_restart_and_never_blocks():
    crew = a_crew()
    crew.noted(2, [R0])
    crew.noted(1, [EpisodeId("other")])
    crew.lost(2)
    crew.joined(2)
    crew.close()
    blocked = Report(generation=1, sequence=1, blockers=(Blocker("r", "still here"),), blocker_count=1)
    crew.reported(1, blocked)
    crew.reported(2, Report(generation=1, sequence=1))
    report = crew.report()
    assert (report.restarts, report.blockers, report.blocker_count) == (("r",), (), 0)
    assert crew.lost_on(2) == {"r": 0}
    assert crew.lost_on(1) == {}


def test_a_restart_is_one_until_that_attempt_is_retired_or_the_rollout_forgotten():
    for end in (
        lambda crew: crew.retired([R1]),
        lambda crew: crew.forgotten(["r"]),
        lambda crew: crew.cleared(),
    ):
        crew = a_crew()
        crew.noted(2, [R1])
        crew.lost(2)
        crew.retired([R0])
        assert crew.report().restarts == ("r-a1",)
        end(crew)
        assert crew.report().restarts == ()


def test_what_was_freed_before_its_worker_was_lost_is_no_restart():
    crew = a_crew()
    crew.noted(1, [R0])
    crew.noted(1, [R1])
    crew.freed(1, [R0])
    crew.lost(1)
    assert crew.report().restarts == ("r-a1",)
    crew = a_crew()
    crew.noted(1, [R0])
    crew.freed(1, [R0])
    crew.lost(1)
    assert crew.report().restarts == ()


def test_all_workers_together_are_one_participant():
    crew = a_crew()
    crew.reported(1, Report(generation=0, sequence=1, live=True, restored_pending=2, counts={"a": 1}))
    crew.reported(
        2, Report(generation=0, sequence=1, served=True, restored_pending=3, counts={"a": 2, "b": 1})
    )
    assert (crew.live(), crew.served, crew.restored_pending()) == (True, True, 5)
    assert crew.report().counts == {"a": 3, "b": 1}
    crew.lost(2)
    assert crew.served, "also what a worker served that is gone"


def test_an_owner_is_the_same_everywhere_and_every_worker_owns_something():
    assert [owner_of(name, 4) for name in ("0-0", "0-1", "1-0", "17-3")] == [2, 4, 3, 1]
    assert {owner_of(f"{task}-0", 4) for task in range(100)} == {1, 2, 3, 4}
    assert owner_of("0-0", 1) == 1
