"""A Gym-shaped stub: head server and environment servers on one port, answering with recorded bytes.

In a test: `url = await nursery.start(stub.serve)`. As a process: `python -m tests.gym.stub --port 11100`,
which prints its URL once it answers. A row chooses its answer by a field `"stub": NAME` anywhere in it: the
name of a recorded exchange, `status_<N>`, `drop` (the connection ends without a byte) or `hang` (no answer).
"""

import argparse
import functools
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio

EXCHANGES: Final = Path(__file__).parent / "exchanges"
_CHOICE: Final = re.compile(rb'"stub"\s*:\s*"(\w+)"')
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)")
_PORT: Final = re.compile(r"(?m)^      port: \d+$")


class Request(NamedTuple):
    """What came in. Names of headers as sent."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def header(self, name: bytes) -> list[bytes]:
        """All values of a header, whatever its case."""
        return [value for known, value in self.headers if known.lower() == name.lower()]


class Stub:
    """Answers like a Gym deployment and keeps every request; `delay_s` passes before a /run's answer."""

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.requests: list[Request] = []
        self.in_flight = self.most_in_flight = 0
        self._delay_s = delay_s

    def runs(self) -> list[Request]:
        """The /run requests so far."""
        return [request for request in self.requests if request.path == "/run"]

    async def serve(
        self, port: int = 0, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serves until cancelled; started with the base URL."""
        (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1", backlog=4096)
        port = listener.socket.getsockname()[1]
        task_status.started(f"http://127.0.0.1:{port}")
        await trio.serve_listeners(functools.partial(self.converse, port), [listener])

    async def converse(self, port: int, stream: trio.abc.Stream) -> None:
        """One connection: requests one after another until the peer leaves or an answer ends it."""
        received = bytearray()
        try:
            while (request := await _receive(stream, received)) is not None:
                self.requests.append(request)
                answer = await self._answer(request, port)
                if answer:
                    await stream.send_all(answer)
                if len(answer) != _promised(answer):
                    return
        except trio.BrokenResourceError:
            return
        finally:
            await trio.aclose_forcefully(stream)

    async def _answer(self, request: Request, port: int) -> bytes:
        match request.path:
            case "/global_config_dict_yaml":
                return _on_port(recorded("head_config"), port)
            case "/aggregate_metrics":
                return recorded("aggregate_metrics")
            case "/run":
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    if self._delay_s:
                        await trio.sleep(self._delay_s)
                    return await _run(request.body)
                finally:
                    self.in_flight -= 1
            case _:
                return _status(404)


def recorded(name: str) -> bytes:
    """The bytes of one recorded exchange, head and body."""
    return (EXCHANGES / f"{name}.http").read_bytes()


def body_of(name: str) -> bytes:
    """The body of one recorded exchange."""
    return recorded(name).partition(b"\r\n\r\n")[2]


async def _run(body: bytes) -> bytes:
    episode = body.startswith(b'{"episode_id":')
    choice = _CHOICE.search(body)
    name = ("episode_success" if episode else "run_flat") if choice is None else choice[1].decode()
    if name == "hang":
        await trio.sleep_forever()
    if name == "drop":
        return b""
    if name.startswith("status_"):
        return _status(int(name.removeprefix("status_")))
    return _for_episode(recorded(name), body) if episode else recorded(name)


def _for_episode(answer: bytes, body: bytes) -> bytes:
    """The recorded answer under the names of this episode."""
    asked = msgspec.json.decode(body, type=dict[str, dict[str, msgspec.Raw]])
    if not answer.partition(b"\r\n\r\n")[2].startswith(b'{"episode_id":'):
        return answer
    fields = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=dict[str, msgspec.Raw])
    fields["episode_id"] = msgspec.Raw(msgspec.json.encode(asked["episode_id"]))
    fields["task_id"] = asked["task"]["task_id"]
    return _with_body(answer, msgspec.json.encode(fields))


def _on_port(answer: bytes, port: int) -> bytes:
    """The recorded config with every server at this port."""
    text = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=str)
    return _with_body(answer, msgspec.json.encode(_PORT.sub(f"      port: {port}", text)))


def _with_body(answer: bytes, body: bytes) -> bytes:
    head = answer.partition(b"\r\n\r\n")[0]
    return _LENGTH.sub(b"\r\ncontent-length: %d" % len(body), head) + b"\r\n\r\n" + body


def _status(status: int) -> bytes:
    return b'HTTP/1.1 %d Stub\r\ncontent-type: application/json\r\ncontent-length: 6\r\n\r\n"stub"' % status


def _promised(answer: bytes) -> int:
    head, _, _ = answer.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return -1 if length is None else len(head) + 4 + int(length[1])


async def _receive(stream: trio.abc.Stream, received: bytearray) -> Request | None:
    while b"\r\n\r\n" not in received:
        more = await stream.receive_some()
        if not more:
            return None
        received += more
    head = bytes(received.partition(b"\r\n\r\n")[0])
    length = _LENGTH.search(head)
    end = len(head) + 4 + (0 if length is None else int(length[1]))
    while len(received) < end:
        more = await stream.receive_some()
        if not more:
            return None
        received += more
    body = bytes(received[len(head) + 4 : end])
    del received[:end]
    line, *lines = head.split(b"\r\n")
    method, path, _ = line.decode().split(" ")
    headers = tuple((name, value.strip()) for name, _, value in (entry.partition(b":") for entry in lines))
    return Request(method, path, headers, body)


async def _main(port: int, delay_s: float) -> None:
    async with trio.open_nursery() as nursery:
        url = await nursery.start(Stub(delay_s=delay_s).serve, port)
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before a /run is answered")
    asked_for = parser.parse_args()
    trio.run(_main, asked_for.port, asked_for.delay)
