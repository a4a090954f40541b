"""Whoever keeps the promises of a participant is told so; of whoever breaks one, it is named."""

from functools import partial

import pytest

from tests.conformance import participants
from tests.conformance.participants import TOKEN, whole
from triocollect.conformance import PROMISES, Terms, examine_in_process


@pytest.fixture
def terms(tmp_path):
    return Terms(token=TOKEN, directory=tmp_path, seconds=0.0, seed=1)


KINDS = ["environment", "model", "agent", "resources"]
MODES = ["exported", "stateless", "restart_only"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
async def test_a_participant_of_any_kind_and_mode_that_keeps_its_promises(
    kind, mode, tmp_path, terms, autojump_clock
):
    examined = await examine_in_process(partial(whole, tmp_path, kind, mode), terms)
    assert (examined.broken, examined.left) == ((), ""), examined.text()
    assert all(one.verdict == "kept" for one in examined.findings), examined.text()
    assert (examined.kind, examined.mode, examined.instance) == (kind, mode, "desk")
    assert examined.calls > 200
    assert not list(tmp_path.iterdir()), "it cleans up"


BROKEN = [
    ("TakesAnyToken", 1),
    ("TakesALowerEpoch", 6),
    ("TellsAnotherDigest", 11),
    ("AnswersACommitBeforeItIsOnDisk", 11),
    ("RetiresInsideACheckpoint", 18),
    ("WritesAfterTheResume", 19),
    ("HasALeaseThatNeverEnds", 20),
    ("AdmitsWithoutAskingAgain", 24),
    ("NeverOpensItsDoorAgain", 25),
    ("OpensWithoutWakingWhoWaits", 25),
    ("TakesNoRunAgain", 25),
    ("RunsWhileClosed", 26),
    ("StaysAfterTheGoodbye", 30),
    ("RestoresAlthoughItHasServed", 33),
    ("ExportsNothingUnderWay", 36),
    ("SaysOneThingTwice", 38),
    ("GoesOnFromNothing", 41),
    ("GivesUpAtAnyGreeting", 42),
]


@pytest.mark.parametrize(("name", "number"), BROKEN)
async def test_of_a_broken_participant_exactly_its_promise_is_named(
    name, number, tmp_path, terms, autojump_clock
):
    examined = await examine_in_process(partial(getattr(participants, name), tmp_path), terms)
    assert examined.broken == (number,), examined.text()
    [broken] = [one for one in examined.findings if one.verdict == "BROKEN"]
    assert all((broken.asked, broken.answered, broken.expected, broken.look)), broken


async def test_an_environment_whose_rows_last_is_not_taken_for_a_broken_one(tmp_path, terms, autojump_clock):
    lasting = partial(whole, tmp_path, "environment", takes_s=3600)
    examined = await examine_in_process(lasting, terms)
    assert examined.broken == (), examined.text()
    untried = [one.why for one in examined.findings if one.verdict == "untried"]
    assert "give a shorter row" in untried[0]
    assert set(untried[1:]) == {"no work that it is asked for succeeds, as is told above"}


async def test_what_needs_more_than_a_url_says_what_it_needs(tmp_path, autojump_clock):
    app = whole(tmp_path)
    examined = await examine_in_process(lambda: app, Terms(token=TOKEN, seconds=0.0, seed=1))
    assert examined.broken == (), examined.text()
    untried = {one.number: one.why for one in examined.findings if one.verdict == "untried"}
    assert untried.keys() == {11, 19, 39, 40}
    assert "--checkpoint-dir" in untried[11]
    assert "the same again" in untried[39]
    assert "which nothing needs" in examined.left


def test_promises_are_numbered_in_the_order_in_which_they_are_tried():
    assert [promise.number for promise in PROMISES] == [*range(1, len(PROMISES) + 1)]
    assert all(number < promise.number for promise in PROMISES for number in promise.builds_on)
    assert TOKEN not in repr(Terms(token=TOKEN))
