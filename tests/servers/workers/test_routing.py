"""A request finds the worker that keeps its rollout, over real sockets."""

import tempfile
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest
import trio

from tests.participant.workers import a_line
from tests.servers.wired import hanging_up
from triocollect.errors import DeploymentError
from triocollect.participant import Admission, Participant, Record
from triocollect.participant.workers import Coordinator, Member, owner_of
from triocollect.protocol.identity import identity_headers
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.workers.passing import Passer, serve_passed
from triocollect.servers.workers.places import listen_in, private_folder, socket_in
from triocollect.servers.workers.routing import Router
from triocollect.servers.workers.whose import whose

EPISODES = [EpisodeId(f"{task}-0") for task in range(8)]


class Echo:
    """An application that says who it is, and all that it got."""

    def __init__(self, number):
        self.number, self.waits, self.fails = number, False, False
        self.heard, self.hung_up = trio.Event(), trio.Event()

    async def __call__(self, scope, receive, send):
        message = await receive()
        self.heard.set()
        if self.fails:
            raise RuntimeError("no luck")
        if self.waits:
            assert (await receive())["type"] == "http.disconnect"
            self.hung_up.set()
            return
        answer = {
            "worker": self.number,
            "method": scope["method"],
            "query": scope["query_string"].decode(),
            "body": message["body"].decode(),
        }
        headers = [(b"x-worker", str(self.number).encode()), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
        await send({"type": "http.response.start", "status": 207, "headers": headers})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})


class Row:
    """Workers in a row, each with its socket."""

    def __init__(self, folder, nursery, size):
        self.apps, self.routers, self.lives = {}, {}, {}
        self._folder, self._nursery, self._size = folder, nursery, size
        admission = Admission()
        self.coordinator = Coordinator(size, Participant("agent", "agent", Admission(), Record), admission)
        self.listeners = {number: listen_in(folder, number) for number in range(1, size + 1)}

    async def start(self, number):
        admission = Admission()
        ours, theirs = a_line()
        member = Member(Participant("agent", "agent", admission, Record), admission, theirs)
        app = self.apps[number] = Echo(number)
        others = {
            other: Passer(f"worker {other}", socket_in(self._folder, other))
            for other in range(1, self._size + 1)
            if other != number
        }
        router = self.routers[number] = Router(app, member, whose("agent"), others, None)
        self.lives[number] = trio.CancelScope()
        self._nursery.start_soon(self._live, number, ours, member, router, others)
        await member.ready.wait()

    async def _live(self, number, ours, member, router, others):
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self.listeners[number].dup()))
        try:
            with self.lives[number]:
                async with listener, trio.open_nursery() as nursery:
                    nursery.start_soon(self.coordinator.serve, number, ours)
                    nursery.start_soon(member.run)
                    nursery.start_soon(serve_passed, router, listener)
        finally:
            for other in others.values():
                await other.close()

    def client(self, number):
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.routers[number]), base_url="http://worker"
        )


@asynccontextmanager
async def a_row(size=2):
    with private_folder() as folder, ExitStack() as opened:
        async with trio.open_nursery() as nursery:
            row = Row(folder, nursery, size)
            for listener in row.listeners.values():
                opened.enter_context(listener)
            for number in row.listeners:
                await row.start(number)
            yield row
            nursery.cancel_scope.cancel()


async def test_every_worker_passes_on_what_is_anothers_and_nothing_of_it_is_changed():
    async with a_row(3) as row:
        for number in row.routers:
            async with row.client(number) as client:
                for episode in EPISODES:
                    reply = await client.put(
                        "/v1/x?a=b%20c", content=b"\xc3\xa9" * 70_000, headers=identity_headers(episode)
                    )
                    owner = owner_of(episode.rollout_id, 3)
                    told = {"worker": owner, "method": "PUT", "query": "a=b%20c", "body": "é" * 70_000}
                    assert (reply.status_code, reply.json()) == (207, told)
                    assert reply.headers.get_list("set-cookie") == ["a=1", "b=2"]


async def test_requests_of_one_rollout_that_come_side_by_side_meet_on_one_worker():
    async with a_row(3) as row, AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(row.client(number)) for number in row.routers]
        served = []

        async def ask(client):
            reply = await client.post("/v1/x", headers=identity_headers(EPISODES[0]))
            served.append(reply.json()["worker"])

        async with trio.open_nursery() as nursery:
            for client in clients * 5:
                nursery.start_soon(ask, client)
        assert served == [owner_of(EPISODES[0].rollout_id, 3)] * 15


async def test_a_request_that_names_no_rollout_is_served_where_it_arrives():
    async with a_row() as row:
        for number in row.routers:
            async with row.client(number) as client:
                assert (await client.get("/livez")).json()["worker"] == number


async def test_a_caller_that_goes_away_is_gone_for_the_owner_too():
    async with a_row() as row:
        episode = next(one for one in EPISODES if owner_of(one.rollout_id, 2) == 2)
        row.apps[2].waits = True

        await hanging_up(
            row.routers[1], f"/ng-rollout/{episode.capture_key}/v1/responses", {}, row.apps[2].heard.wait
        )
        with trio.fail_after(10):
            await row.apps[2].hung_up.wait()


async def test_a_worker_that_is_gone_in_the_middle_has_not_replied():
    async with a_row() as row:
        episode = next(one for one in EPISODES if owner_of(one.rollout_id, 2) == 2)
        row.apps[2].waits = True
        async with row.client(1) as client, trio.open_nursery() as nursery:
            replies = []

            async def ask():
                replies.append(await client.post("/v1/x", headers=identity_headers(episode)))

            nursery.start_soon(ask)
            await row.apps[2].heard.wait()
            row.lives[2].cancel()
        assert replies[0].status_code == 503
        assert replies[0].json()["error"]["code"] == "coordinator_unavailable"
        assert replies[0].json()["error"]["detail"] == "worker 2 ended before it had answered"


async def test_an_application_that_fails_is_alive_and_says_so_to_whoever_asked():
    async with a_row() as row:
        episode = next(one for one in EPISODES if owner_of(one.rollout_id, 2) == 2)
        async with row.client(1) as client:
            row.apps[2].fails = True
            failed = await client.post("/v1/x", headers=identity_headers(episode))
            row.apps[2].fails = False
            again = await client.post("/v1/x", headers=identity_headers(episode))
        assert (failed.status_code, failed.text) == (500, "Internal Server Error")
        assert again.status_code == 207


async def test_who_asks_while_a_worker_is_started_again_waits_and_hears_what_was_lost():
    async with a_row() as row:
        first, second = [one for one in EPISODES if owner_of(one.rollout_id, 2) == 2][:2]
        async with row.client(1) as client:
            assert (await client.post("/v1/x", headers=identity_headers(first))).status_code == 207
            row.lives[2].cancel()
            await anyio.wait_all_tasks_blocked()
            replies = {}

            async def ask(episode):
                replies[episode] = await client.post("/v1/x", headers=identity_headers(episode))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, first)
                nursery.start_soon(ask, second)
                await row.start(2)
        assert replies[second].json()["worker"] == 2
        assert replies[first].status_code == 503
        assert "took its part of" in replies[first].json()["error"]["detail"]


@pytest.fixture
def short(monkeypatch):
    """For temporary files."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield Path(folder)


def test_a_folder_of_sockets_is_for_this_user_alone_and_gone_after_it(short):
    with private_folder() as folder:
        (made,) = short.iterdir()
        assert made.stat().st_mode & 0o777 == 0o700
        listen_in(folder, 1).close()
    assert not [*short.iterdir()]


def test_where_temporary_files_have_long_names_the_sockets_are_elsewhere(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with private_folder() as folder:
        listen_in(folder, 1234).close()
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert not Path(folder).exists()


def test_what_goes_wrong_among_the_workers_is_not_told_as_a_fault_of_their_folder(short):
    with pytest.raises(OSError, match="the disk is full"), private_folder():
        raise OSError("the disk is full")


def test_a_folder_in_which_nobody_can_listen_is_said(tmp_path):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "1").touch()
        with pytest.raises(DeploymentError, match=f"workers cannot listen at {folder}/1: .*in use"):
            listen_in(folder, 1)


def test_a_folder_whose_name_is_too_long_for_a_socket_is_said(tmp_path):
    with pytest.raises(DeploymentError, match="set TMPDIR to a shorter folder"):
        listen_in(str(tmp_path / ("x" * 100)), 1)
