"""Whoever waited at a closed door looks again when it is woken: at the door, and whether it is wanted."""

from functools import partial

import httpx
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from fuzz.invariants import all_hold, holds
from triocollect.flight.gate import Gate
from triocollect.participant import Admission, EpisodeId
from triocollect.protocol.identity import Sender, sender_headers
from triocollect.protocol.refusals import Refusal
from triocollect.servers.model.app import ModelSettings, build_app

OURS, LATER = EpisodeId("0-0", 1), EpisodeId("0-0", 2)
FIRST, NEXT, ANOTHERS = Sender("r", 1), Sender("r", 2), Sender("s", 1)


def is_retired(admission):
    admission.marks.retire([OURS])


def is_overtaken(admission):
    """A retire of a later attempt refuses the earlier ones as well."""
    admission.marks.retire([LATER])


def has_lost_its_collector(admission):
    admission.meet(NEXT)


def belongs_to_another_run(admission):
    admission.meet(ANOTHERS)


def has_said_goodbye(admission):
    admission.goodbye()


BROKEN = {
    is_retired: (2, 7),
    is_overtaken: (2, 7),
    has_lost_its_collector: (2, 16),
    belongs_to_another_run: (2, 16),
    has_said_goodbye: (16,),
}


async def admitted_after(meanwhile):
    """What became of work that came to a closed door, when that opens after something has happened."""
    admission, answers = Admission(), []
    admission.meet(FIRST)
    admission.close()

    async def come():
        answers.append(await admission.admit(OURS, "starting", sender=FIRST))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come)
        await wait_all_tasks_blocked()
        meanwhile(admission)
        admission.open()
    return answers


@pytest.mark.parametrize("meanwhile", BROKEN)
def test_who_waited_at_the_door_is_asked_again_whether_it_is_wanted(meanwhile):
    (answer,) = trio.run(admitted_after, meanwhile)
    words = f"{OURS.capture_key} came in when the door opened, and meanwhile it {meanwhile.__name__}"
    all_hold(BROKEN[meanwhile], isinstance(answer, Refusal), words)


async def past(wait, door):
    """Whether somebody who waits gets past a door that opens, and closes again before anybody has run."""
    door.close()
    passed = trio.Event()

    async def come():
        await wait(door)
        passed.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come)
        await wait_all_tasks_blocked()
        door.open()
        door.close()
        await wait_all_tasks_blocked()
        early = passed.is_set()
        door.open()
        await passed.wait()
    return early


async def rests_at_a_boundary(admission):
    with admission.enter(OURS, "a step") as work:
        await work.boundary("the next step")


async def comes_to_be_admitted(admission):
    await admission.admit(OURS, "starting")


async def holds_a_place(gate):
    await gate.opened()


WAITS = {rests_at_a_boundary: Admission, comes_to_be_admitted: Admission, holds_a_place: lambda: Gate(1)}


@pytest.mark.parametrize("wait", WAITS)
def test_who_is_woken_looks_whether_the_door_has_closed_again(wait):
    early = trio.run(past, wait, WAITS[wait]())
    holds(5, not early, f"who {wait.__name__} went on into a checkpoint that had begun meanwhile")


async def asked_of_a_worker(meanwhile):
    """Policy calls that reach a worker of one that came to a closed model server."""
    asked = []

    def worker(request):
        asked.append(request.url.path)
        return httpx.Response(500)

    app = build_app(ModelSettings(worker_url="http://worker/v1"), lambda _url: httpx.MockTransport(worker))
    admission = app.routes[0].app.capture.admission
    admission.meet(FIRST)
    admission.close()
    path, said = f"/ng-rollout/{OURS.capture_key}/v1/responses", sender_headers(FIRST)
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://model")
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.post, path, json={"input": "hi"}, headers=said))
        await wait_all_tasks_blocked()
        meanwhile(admission)
        admission.open()
    return asked


@pytest.mark.parametrize("meanwhile", BROKEN)
def test_a_call_that_waited_at_its_model_server_is_asked_again_whether_it_is_wanted(meanwhile):
    asked = trio.run(asked_of_a_worker, meanwhile)
    words = f"a call of {OURS.capture_key} was made at the opening, and meanwhile it {meanwhile.__name__}"
    all_hold(BROKEN[meanwhile], not asked, words)
