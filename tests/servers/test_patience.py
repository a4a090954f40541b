"""A worker that has no room is asked again."""

from itertools import pairwise

import httpx
import trio

from tests.servers.test_model import RESPONSE, an_app, post, streamed
from triocollect.servers.model.patience import PAUSES_S


def busy(times, status=429, **headers):
    """A worker that answers only after so many refusals; when it was asked."""
    asked = []

    def handler(request):
        asked.append(trio.current_time())
        if len(asked) <= times:
            return httpx.Response(status, json={"error": "no room"}, headers=headers)
        return streamed(request)

    return handler, asked


async def test_a_worker_that_says_when_to_come_back_is_asked_again_then(autojump_clock):
    for status in (429, 503):
        handler, asked = busy(1, status, **{"retry-after": "7"})
        reply = await post(an_app(handler), "/v1/responses", {"input": "x"})
        assert (reply.status_code, reply.json()) == (200, RESPONSE)
        assert 7 <= asked[1] - asked[0] <= 7 * 1.25


async def test_a_worker_without_room_is_asked_after_ever_longer_pauses_and_that_is_told_once(
    autojump_clock, caplog
):
    handler, asked = busy(len(PAUSES_S))
    assert (await post(an_app(handler), "/v1/responses", {"input": "x"})).status_code == 200
    pauses = [later - before for before, later in pairwise(asked)]
    assert all(wanted <= pause <= wanted * 1.25 for wanted, pause in zip(PAUSES_S, pauses, strict=True))
    said = [record.getMessage() for record in caplog.records if "made again after a while" in record.message]
    assert len(said) == 1
    assert "429" in said[0]


async def test_a_worker_that_has_no_room_for_minutes_fails_the_call_in_its_own_words(autojump_clock):
    handler, asked = busy(100)
    reply = await post(an_app(handler), "/v1/responses", {"input": "x"})
    assert reply.status_code >= 400
    assert "no room" in reply.text
    assert len(asked) == len(PAUSES_S) + 1


async def test_a_worker_that_broke_is_not_asked_again(autojump_clock):
    for status in (400, 500, 503):
        handler, asked = busy(1, status)
        assert (await post(an_app(handler), "/v1/responses", {"input": "x"})).status_code >= 400
        assert len(asked) == 1


async def test_a_caller_that_hangs_up_while_there_is_no_room_ends_its_call(autojump_clock):
    handler, asked = busy(100)
    app = an_app(handler)
    with trio.move_on_after(0.5):
        await post(app, "/v1/responses", {"input": "x"})
    await trio.sleep(1000)
    assert len(asked) == 1


async def test_who_is_told_to_come_back_at_once_again_and_again_is_patient_all_the_same(autojump_clock):
    for soon in ("0", "1"):
        handler, asked = busy(len(PAUSES_S), **{"retry-after": soon})
        assert (await post(an_app(handler), "/v1/responses", {"input": "x"})).status_code == 200
        assert asked[-1] - asked[0] >= sum(PAUSES_S)


async def test_calls_that_are_answered_meanwhile_do_not_have_it_told_again(autojump_clock, caplog):
    refused = {}

    def handler(request):
        words = request.content
        refused[words] = refused.get(words, 0) + 1
        if b"busy" in words and refused[words] <= 3:
            return httpx.Response(429, json="no room")
        return streamed(request)

    app = an_app(handler)
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(post, app, "/v1/responses", {"input": f"busy {number}"})
            await trio.sleep(0.5)
            await post(app, "/v1/responses", {"input": f"well {number}"})
    said = [record for record in caplog.records if "made again after a while" in record.getMessage()]
    assert len(said) == 1
