"""Whatever ends an episode at a model server frees what it keeps of it: its calls and a filed cut."""

import pytest
import trio

from fuzz.invariants import all_hold, holds
from fuzz.kinds import MAKE
from triocollect.participant import Admission, EpisodeId, episode_of
from triocollect.servers.model.account import Account
from triocollect.servers.model.calls import Answer, Call
from triocollect.servers.model.capture import Capture
from triocollect.servers.model.filed import FiledCut

OURS, ANOTHERS = EpisodeId("0-0", 1), EpisodeId("1-0", 1)
CUT = FiledCut(request_sha256="00", key="k:0", tokens=3)


async def ends(capture):
    await trio.lowlevel.checkpoint()
    capture.end(OURS)


async def is_retired(capture):
    await capture.stop([OURS])


async def is_forgotten(capture):
    await trio.lowlevel.checkpoint()
    capture.forget([OURS.rollout_id])


async def is_restored_as_another(capture):
    await capture.install([], {OURS: EpisodeId(OURS.rollout_id, 2)})


async def leaves_with_its_run(capture):
    await capture.clear()


async def is_restored_and_in_no_scope(capture):
    capture.restored = dict.fromkeys((OURS, ANOTHERS))
    await capture.discard(frozenset({ANOTHERS}))


async def inline(work):
    return work()


async def kept_after(way):
    capture = Capture("policy_model", Admission(), None, Account(None, inline))
    capture.filed.file({OURS: CUT, ANOTHERS: CUT})
    for episode in (OURS, ANOTHERS):
        call = Call(f"of {episode.capture_key}", episode, b"{}", None, "asked")
        assert await capture.deliver(call, Answer(b"{}")) is None
    await way(capture)
    return {one for one in (OURS, ANOTHERS) if capture.filed.of(one) or capture.ledger.rows(one)}


WAYS = (
    ends,
    is_retired,
    is_forgotten,
    is_restored_as_another,
    is_restored_and_in_no_scope,
    leaves_with_its_run,
)


@pytest.mark.parametrize("way", WAYS)
def test_an_episode_that_is_over_leaves_nothing_at_its_model_server(way):
    kept = trio.run(kept_after, way)
    holds(16, OURS not in kept, f"a call or a cut of {OURS.capture_key} is kept: it {way.__name__}")
    assert way is leaves_with_its_run or ANOTHERS in kept


async def restored_after(kind, keep):
    """What a server has still of two restored episodes when it was told to keep these."""
    hooks = MAKE[kind](Admission())
    with_sessions = kind in {"resources", "sessions"}
    for episode in (OURS, ANOTHERS) if with_sessions else ():
        hooks.begin(episode, {})
    hooks.restored = dict.fromkeys((OURS, ANOTHERS))
    await hooks.discard(keep)
    sessions = hooks.export(frozenset({OURS, ANOTHERS})) if with_sessions else ()
    return {*hooks.restored, *map(episode_of, sessions)}


@pytest.mark.parametrize("keep", [None, frozenset({ANOTHERS})], ids=["nothing", "a scope"])
@pytest.mark.parametrize("kind", [kind for kind in MAKE if kind != "restart only"])
def test_what_was_restored_and_is_not_to_be_kept_goes_at_every_kind_of_server(kind, keep):
    kept = trio.run(restored_after, kind, keep)
    all_hold((10, 16), OURS not in kept, f"{kind}: {OURS.capture_key} was restored, and is kept for nobody")
    assert (ANOTHERS in kept) == (keep is not None)
