"""Who takes part, and what is said when somebody cannot be asked."""

import contextlib
import gzip
import itertools

import httpx
import pytest
import trio
import trio.testing

from tests.checkpoint.network import TOKEN
from tests.checkpoint.world import world
from triocollect.checkpoint.discovery import (
    Candidate,
    control_client,
    discover,
    highest_epoch,
    require_kinds,
    unseen_behind,
)
from triocollect.checkpoint.line import Line
from triocollect.errors import ControlError, RefusedError, UsageError
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.messages import Status
from triocollect.transport import Transport

CAPABILITIES = {"boot": "b", "kind": "model", "instance": "one", "mode": "exported"}
STATUS = {
    "boot": "b",
    "phase": "open",
    "operation": None,
    "epoch": 7,
    "lease_expires": None,
    "report": None,
    "restored_pending": 0,
    "served": False,
}


def answers(**routes):
    """A network in which each host gives one answer to everything, or one by route."""

    async def handle(request):
        answer = routes[request.url.host]
        if answer == "silent":
            await trio.sleep_forever()
        if answer == "refused":
            raise httpx.ConnectError("connection refused", request=request)
        if isinstance(answer, dict):
            answer = answer[request.url.path.rpartition("/")[2]]
        if isinstance(answer, dict):
            return httpx.Response(200, json=answer)
        return answer

    return control_client("t", httpx.MockTransport(handle))


def participant(**changed):
    return {
        "capabilities": {**CAPABILITIES, **changed},
        "status": {**STATUS, "boot": changed.get("boot", "b")},
    }


async def found_by(client, *urls):
    return await discover(client, [Candidate(url) for url in urls])


async def problem(client, *candidates):
    with pytest.raises(UsageError) as wrong:
        await discover(client, candidates)
    return str(wrong.value)


async def test_servers_without_the_routes_take_no_part():
    client = answers(gym=httpx.Response(404), odd=httpx.Response(405), ours=participant())
    found = await found_by(client, "http://gym", "http://odd", "http://ours")
    assert [str(one.participant) for one in found] == ["model one at http://ours"]
    assert highest_epoch(found) == 7


async def test_no_participant_has_heard_of_no_epoch():
    assert highest_epoch(()) == 0


async def test_several_names_at_one_place_are_one_participant():
    client = answers(ours=participant(), alias=participant())
    found = await found_by(client, "http://ours", "http://OURS/", "http://ours:80", "http://alias:9")
    assert len(found) == 1


async def test_several_processes_behind_one_port_are_refused():
    boots = itertools.cycle(["b", "another", "another"])

    def handle(request):
        body = CAPABILITIES if request.url.path.endswith("capabilities") else STATUS
        assert request.headers["connection"] == "close"  # else the same process would answer every time
        return httpx.Response(200, json={**body, "boot": next(boots)})

    client = control_client("t", httpx.MockTransport(handle))
    said = await problem(client, Candidate("http://ours"))
    assert said.startswith("http://ours: several processes answer there")
    assert "--workers 1" in said


async def test_a_server_that_is_started_anew_between_two_questions_is_not_taken_for_several():
    def handle(request):
        capabilities = request.url.path.endswith("capabilities")
        body, boot = (CAPABILITIES, "b") if capabilities else (STATUS, "another")
        return httpx.Response(200, json={**body, "boot": boot})

    assert len(await found_by(control_client("t", httpx.MockTransport(handle)), "http://ours")) == 1


async def test_two_servers_of_one_name_are_refused():
    client = answers(a=participant(), b=participant(boot="other"))
    said = await problem(client, Candidate("http://a"), Candidate("http://b"))
    assert "model one at http://a and model one at http://b have the same name" in said


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(401, json={"error": {"code": "unauthorized", "detail": "no"}}),
        httpx.Response(401),
        httpx.Response(403),
    ],
)
async def test_a_token_that_is_not_taken_is_said_clearly(reply):
    said = await problem(answers(ours=reply), Candidate("http://ours"))
    assert "http://ours: does not take the control token; set TRIOCOLLECT_CONTROL_TOKEN" in said


async def test_a_token_that_several_do_not_take_is_said_once():
    said = await problem(
        answers(one=httpx.Response(401), two=httpx.Response(403)),
        *map(Candidate, ("http://one", "http://two")),
    )
    assert said.startswith("http://one, http://two: do not take the control token; set TRIO")
    assert len(said.splitlines()) == 1


async def test_the_token_of_a_real_control_plane_is_checked(tmp_path):
    async with world(tmp_path) as here:
        said = await problem(control_client("wrong", here.network), Candidate("http://model"))
        assert "does not take the control token" in said
        assert TOKEN not in said


async def test_every_problem_is_said_at_once_and_silence_ends_after_ten_seconds(autojump_clock):
    client = answers(
        silent="silent",
        down="refused",
        page=httpx.Response(200, content=b"<html>"),
        off=httpx.Response(
            503, json={"error": {"code": "coordinator_unavailable", "detail": "start it with lifespan on"}}
        ),
        newer=participant(protocol=2),
        gym=httpx.Response(404),
    )
    urls = ["silent", "down", "page", "off", "newer"]
    said = await problem(
        client, *(Candidate(f"http://{url}") for url in urls), Candidate("http://gym", kind="agent")
    )
    lines = said.splitlines()
    assert len(lines) == 6
    assert "http://silent did not say within 10 s" in lines[0]
    assert "http://down did not say within 10 s" in lines[1]
    assert lines[1].endswith("(connection refused); is it running?")
    assert "http://page: answered capabilities with what is no such reply" in lines[2]
    assert "start it with lifespan on" in lines[3]
    assert "speaks version 2" in lines[4]
    assert "http://gym takes no part" in lines[5]
    assert trio.current_time() == 10


async def test_who_keeps_a_start_waiting_is_told_before_patience_ends(autojump_clock):
    client = answers(silent="silent", down="refused", gym=httpx.Response(404))
    told = []
    asked = [Candidate(f"http://{host}") for host in ("silent", "down", "gym")]
    with pytest.raises(UsageError):
        await discover(client, asked, tell=lambda text: told.append((trio.current_time(), text)))
    assert told == [(4, "waiting for http://silent, http://down (connection refused): 10 s at most")]


async def test_a_server_that_is_still_starting_is_asked_again(autojump_clock):
    tries = iter([True, True, False, False])

    async def handle(request):
        if next(tries):
            raise httpx.ConnectError("connection refused", request=request)
        body = CAPABILITIES if request.url.path.endswith("capabilities") else STATUS
        return httpx.Response(200, json=body)

    assert len(await found_by(control_client("t", httpx.MockTransport(handle)), "http://ours")) == 1


async def test_a_server_that_is_another_kind_than_said_is_refused():
    said = await problem(answers(ours=participant()), Candidate("http://ours", kind="agent"))
    assert said == "model one at http://ours is no agent server"


async def test_what_is_no_url_is_refused():
    assert "is no URL" in await problem(answers(), Candidate("http://[::1"))


async def test_a_reply_without_end_is_given_up():
    async def connect(_host, _port, _tls):
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(endless, theirs)
        return ours

    async def endless(stream):
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                await stream.send_all(b"400\r\n" + b"x" * 1024 + b"\r\n")
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        line = Line(control_client("t", Transport(max_reply_bytes=10_000, connect=connect)), "http://a", "a")
        with pytest.raises(ControlError, match="10000"):
            await line.ask("status", None, Status)
        nursery.cancel_scope.cancel()


async def test_a_run_without_an_environment_and_a_model_is_refused():
    found = await found_by(answers(ours=participant()), "http://ours")
    with pytest.raises(UsageError, match=r"no environment server does .*: http://gym\)"):
        require_kinds(found, ["http://gym"])


async def test_servers_behind_an_environment_server_that_names_none_are_asked_for():
    ours = participant(kind="environment"), participant(kind="agent")
    client = answers(environment=ours[0], agent=ours[1], counter=participant(kind="resources"))
    known = await found_by(client, "http://environment", "http://agent")
    assert unseen_behind(known).startswith("no resources server is known to take part")
    assert unseen_behind(known[:1]).startswith("no agent server and no resources server is known")
    assert unseen_behind(await found_by(client, "http://agent", "http://counter")) is None


async def test_a_participant_that_works_for_another_run_refuses_the_hello(tmp_path, autojump_clock):
    async with world(tmp_path, run="theirs", epoch=3) as here:
        work = here.servers["agent"].admission.enter(EpisodeId("9-0"), "theirs")
        with work, pytest.raises(RefusedError, match="agent one at http://agent"):
            await here.take_over(run="ours", epoch=4)
        await here.take_over(run="ours", epoch=4)


async def test_a_run_that_is_refused_takes_no_idle_server_from_the_run_that_is_at_work(
    tmp_path, autojump_clock
):
    async with world(tmp_path, run="theirs", epoch=3) as here:
        work = here.servers["environment"].admission.enter(EpisodeId("9-0"), "theirs")
        with work, pytest.raises(RefusedError, match="environment one at http://environment"):
            await here.take_over(run="ours", epoch=4)
        assert [server.admission.sender.run for server in here.servers.values()] == ["theirs"] * 4


async def test_a_hello_that_fails_leaves_only_those_that_heard_it(tmp_path, autojump_clock):
    async with world(tmp_path, run="theirs", epoch=3) as here:
        work = here.servers["agent"].admission.enter(EpisodeId("9-0"), "theirs")
        with work, pytest.raises(RefusedError, match="agent one at http://agent"):
            await here.take_over(run="ours", epoch=4)
        await here.coordination.leave()
        needed = {kind: one.admission.attendance.needed for kind, one in here.servers.items()}
        assert not needed["environment"], "it heard us, and hears our goodbye"
        assert needed["agent"], "it works for the other run"
        assert here.servers["agent"].admission.sender.run == "theirs"


async def test_a_hello_ends_what_a_dead_collector_left_closed(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        await here.take(stop=True)
        assert set(here.phases.values()) == {"closed"}
        await here.take_over(epoch=2)
        assert set(here.phases.values()) == {"open"}


async def test_a_collector_that_was_taken_over_is_refused_everything(tmp_path, autojump_clock):
    async with world(tmp_path) as here:
        here.fly(0)
        older, crew = here.air, here.crew
        await here.take_over(epoch=2)
        here.air, here.crew = older, crew
        taken = await here.take()
        assert "epoch 1 is over" in taken.reason
        assert not crew.coordination.owes, "a refused resume is not repeated"


async def test_an_epoch_that_no_later_run_could_be_above_is_not_believed():
    liar = participant()
    liar["status"]["epoch"] = 10**30
    said = await problem(answers(liar=liar), Candidate("http://liar"))
    assert "http://liar: says that it has heard of an epoch that there cannot be" in said


async def test_a_packed_answer_that_was_not_asked_for_is_not_unpacked():
    """Of a few kilobytes it could make gigabytes."""
    packed = httpx.ByteStream(gzip.compress(bytes(1 << 20)))
    answer = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=packed)
    said = await problem(answers(bomb=answer), Candidate("http://bomb"))
    assert said == "http://bomb: answered capabilities packed (gzip), which was not asked for"
