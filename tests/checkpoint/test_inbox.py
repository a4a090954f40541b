"""Who waits, who merges, who overtakes."""

import trio
import trio.testing

from triocollect.checkpoint.crew import UnderWay
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.orders import Checkpoint, Leave, Retire, RowsDone, Stop, nothing_tried


def an_inbox():
    return Inbox(grace_s=60, now=0)


def test_nothing_asked_is_nothing_to_do():
    assert an_inbox().take() is None


def test_usr1s_before_a_checkpoint_has_begun_are_one():
    inbox = an_inbox()
    for _ in range(5):
        inbox.checkpoint("signal")
    assert inbox.take() == Checkpoint("signal")
    assert inbox.take() is None


def test_a_usr1_that_meets_the_timers_order_is_answered_as_a_usr1():
    inbox = an_inbox()
    inbox.checkpoint("timer")
    inbox.checkpoint("signal")
    inbox.checkpoint("timer")
    assert inbox.take() == Checkpoint("signal")
    assert inbox.take() is None


def test_usr1s_during_a_checkpoint_lead_to_one_more():
    inbox = an_inbox()
    inbox.checkpoint("timer")
    inbox.take()
    with inbox.doing(UnderWay(by=300, stop=False)):
        for _ in range(5):
            inbox.checkpoint("signal")
    assert inbox.take() == Checkpoint("signal")
    assert inbox.take() is None


def test_the_grace_counts_from_the_first_term_and_repeated_ones_change_nothing():
    inbox = an_inbox()
    for now in (10, 20, 50):
        inbox.stop(now)
    assert inbox.take() == Stop(70)
    inbox.stop(55)
    assert inbox.take() is None


def test_a_term_turns_the_checkpoint_under_way_and_cuts_its_deadline_to_the_grace():
    inbox, under_way = an_inbox(), UnderWay(by=300, stop=False)
    with inbox.doing(under_way):
        inbox.stop(10)
        assert under_way.is_stop
        assert under_way.scope.deadline == 70
        assert not under_way.begin_to_resume()
    assert inbox.take() is None, "there is no second one"


def test_a_term_never_lengthens_a_checkpoint():
    inbox, under_way = an_inbox(), UnderWay(by=30, stop=False)
    with inbox.doing(under_way):
        inbox.stop(10)
    assert under_way.scope.deadline == 30


def test_a_term_after_the_first_resume_call_takes_a_checkpoint_of_its_own():
    inbox, under_way = an_inbox(), UnderWay(by=300, stop=False)
    assert under_way.begin_to_resume()
    with inbox.doing(under_way):
        inbox.stop(10)
    assert not under_way.is_stop
    assert under_way.overtaken
    assert inbox.take() == Stop(70)


def test_a_stop_comes_before_everything_that_waits():
    inbox = an_inbox()
    inbox.retire()
    inbox.checkpoint("timer")
    inbox.stop(0)
    assert inbox.take() == Stop(60)
    assert inbox.take() is None, "the checkpoint is the stop's, and a retire has no time"


def test_a_checkpoint_comes_before_a_retire_and_a_retire_before_the_end():
    inbox = an_inbox()
    inbox.rows_done()
    inbox.retire()
    inbox.checkpoint("signal")
    assert [inbox.take() for _ in range(4)] == [Checkpoint("signal"), Retire(), RowsDone(), RowsDone()]


def test_a_term_when_all_rows_are_done_changes_nothing():
    inbox = an_inbox()
    inbox.rows_done()
    inbox.stop(0)
    assert inbox.take() == RowsDone()


def test_the_first_ctrl_c_is_a_term_and_the_second_leaves():
    inbox = an_inbox()
    inbox.interrupt(0)
    assert inbox.take() == Stop(60)
    under_way = UnderWay(by=60, stop=True)
    with inbox.doing(under_way):
        inbox.interrupt(1)
    assert under_way.given_up
    assert under_way.scope.cancel_called
    assert inbox.take() == Leave()


def test_a_ctrl_c_after_a_term_does_not_leave_yet():
    inbox = an_inbox()
    inbox.stop(0)
    inbox.interrupt(1)
    assert not inbox.is_left
    inbox.interrupt(2)
    assert inbox.is_left


async def test_who_asked_for_a_checkpoint_that_a_stop_overtook_hears_of_the_stops():
    inbox, answers = an_inbox(), []

    async def ask():
        answers.append(await inbox.ask())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        assert await inbox.next() == Checkpoint("library")
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        inbox.stop(0)
        assert inbox.take() == Stop(60)
        inbox.taken(nothing_tried("because"), 1)
    assert [answer.reason for answer in answers] == ["because", "because"]
