"""A whole deployment in one process: the real applications, joined by ASGI instead of sockets."""

import json
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import httpx
import msgspec
import trio
from attrs import evolve
from starlette.applications import Starlette

from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import SOURCES, Address, plan_for, settings_of
from triocollect.servers.agent import app as agent
from triocollect.servers.environment import app as environment
from triocollect.servers.inference import app as inference
from triocollect.servers.model import app as model
from triocollect.servers.resources import app as resources

Replace = Mapping[str, Callable[[httpx.Request], httpx.Response]]

TOOLS = [{"type": "function", "name": name} for name in ("increment", "decrement", "get_value")]
COUNTER_ROW = {
    "responses_create_params": {"input": "Add 3, then 4, then report the value.", "tools": TOOLS},
    "expected_change": 7,
    "agent_ref": {"name": "counter_agent"},
}


async def inline(work):
    """Where time may be simulated there are no threads."""
    return work()


class Stop:
    """A request on its way, or its answer on the way back, goes no further until `go` is set."""

    def __init__(self):
        self.reached, self.go = trio.Event(), trio.Event()

    async def pass_by(self):
        self.reached.set()
        await self.go.wait()


class Deployment:
    """Every server of the plan under its own host name; `replaced` answers in place of one of them.

    `in_thread`: where what blocks is done, where that is not in threads. `more` is what else the plan has.
    """

    def __init__(self, replaced: Replace | None = None, in_thread=None, **more):
        self.replaced = dict(replaced or {})
        self.heard: list[tuple[str, str]] = []  # (process, path), in order
        self.stops: dict[tuple[str, str, str], Stop] = {}
        self.apps: dict[str, Starlette] = {}
        plan = evolve(plan_for(SOURCES, ServersConfig()), **more)
        addresses = {process.name: Address(process.name, 80) for process in plan.processes}
        kinds = {
            "environment": (environment.EnvironmentSettings, environment.build_app),
            "agent": (agent.AgentSettings, agent.build_app),
            "model": (model.ModelSettings, partial(model.build_app, in_thread=inline)),
        }
        elsewhere = {} if in_thread is None else {"in_thread": in_thread}
        for process in plan.processes:
            line = msgspec.json.encode(settings_of(plan, process, addresses))
            if process.kind == "resources":
                app = resources.build_app(msgspec.json.decode(line, type=resources.ResourcesSettings))
            elif process.kind == "inference":
                settings = msgspec.json.decode(line, type=inference.InferenceSettings)
                app = inference.build_app(settings, **elsewhere)
            else:
                settings, build_app = kinds[process.kind]
                blocking = elsewhere if process.kind == "model" else {}
                app = build_app(msgspec.json.decode(line, type=settings), self.connect, **blocking)
            for middleware in app.user_middleware:
                middleware.kwargs.update(elsewhere)
            self.apps[process.name] = app

    def stop(self, name: str, path: str, when: str = "before") -> Stop:
        """Stop the next request to this path of a server `before` it is there or `after` it was answered."""
        stop = self.stops[name, path, when] = Stop()
        return stop

    async def pass_by(self, name: str, path: str, when: str) -> None:
        if (stop := self.stops.pop((name, path, when), None)) is not None:
            await stop.pass_by()

    def connect(self, base_url: str) -> httpx.AsyncBaseTransport:
        return _Line(self, httpx.URL(base_url).host)

    def client(self, name: str = "environment") -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=_Line(self, name), base_url=f"http://{name}")

    @asynccontextmanager
    async def asking(self, name: str = "environment"):
        async with self.client(name) as client:
            yield client


class _Line(httpx.AsyncBaseTransport):
    def __init__(self, deployment: Deployment, name: str):
        self._deployment, self._name = deployment, name

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()  # a request of a cancelled task never leaves, as on a real line
        await self._deployment.pass_by(self._name, request.url.path, "before")
        self._deployment.heard.append((self._name, request.url.path))
        if (handler := self._deployment.replaced.get(self._name)) is not None:
            return await httpx.MockTransport(handler).handle_async_request(request)
        app = self._deployment.apps[self._name]
        answer = await httpx.ASGITransport(app).handle_async_request(request)
        await self._deployment.pass_by(self._name, request.url.path, "after")
        return answer


def an_episode(fields, taskset="counter", rollout_id="0-0", attempt=0):
    """A Gym episode request for a row's fields."""
    data = dict(fields)
    params = data.pop("responses_create_params")
    return {
        "episode_id": {"rollout_id": rollout_id, "attempt": attempt},
        "task": {
            "task_id": {"taskset": taskset, "task_id": "t0"},
            "task_input": {"responses_create_params": params, "task_data": data},
        },
    }


async def hanging_up(app: Starlette, path: str, body: object, hung_up) -> list[dict]:
    """POST to an application as a client that hangs up when `hung_up` returns; what was sent to it."""
    arrived, sent = iter([{"type": "http.request", "body": json.dumps(body).encode()}]), []

    async def receive():
        if (message := next(arrived, None)) is not None:
            return message
        await hung_up()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await app(scope, receive, send)
    return sent
