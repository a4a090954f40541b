"""The server of every bench, a process of its own: pre-baked replies, as little work per request as can be.

Run as `python -m tests.bench.stub`. The first line on stdout is the port; it serves until stdin ends, so it
never outlives whoever holds the other end. It answers

- `POST /run`: 200 and the reply, with the row's task index in it, so that a mixed-up reply is seen;
- `GET /global_config_dict_yaml` and `POST /aggregate_metrics`, as a head and an environment server do;
- `GET /stats`: how many `/run` came whole, and the most that were unanswered at once.

A connection carries one request at a time: nobody here pipelines.
"""

import argparse
import asyncio
import json
import socket
import sys
from typing import Final, cast

from tests.bench.data import ECHO_WIDTH, Shape, reply_around_echo

HOST: Final = "127.0.0.1"
BACKLOG: Final = 16_384  # the kernel's own limit applies where it is lower
_TASK_KEY: Final = b'"_ng_task_index":'
_END_OF_HEAD: Final = b"\r\n\r\n"


class Answers:
    """What all connections share: the replies, and what was counted."""

    def __init__(self, shape: Shape, reply_bytes: int, delay_s: float, port: int) -> None:
        before, after = reply_around_echo(shape, reply_bytes)
        self.before = _head(b"200 OK", len(before) + ECHO_WIDTH + len(after)) + before
        self.after, self.delay_s = after, delay_s
        self.config = json.dumps(_gym_config(port)).encode()
        self.runs = self.waiting = self.waiting_max = 0

    def run(self, body: bytes) -> list[bytes]:
        """The reply to one row, in pieces."""
        place = body.rfind(_TASK_KEY)
        digits = body[place + len(_TASK_KEY) : place + len(_TASK_KEY) + ECHO_WIDTH + 1]
        task = digits.partition(b",")[0].partition(b"}")[0].strip()
        return [self.before, task.rjust(ECHO_WIDTH, b"0"), self.after]

    def others(self, method: bytes, path: bytes) -> bytes:
        """The reply to anything that is not a row."""
        match method, path:
            case b"GET", b"/global_config_dict_yaml":
                return _whole(b"200 OK", self.config)
            case b"GET", b"/stats":
                counts = {"runs": self.runs, "waiting_max": self.waiting_max}
                return _whole(b"200 OK", json.dumps(counts).encode())
            case b"POST", b"/aggregate_metrics":
                return _whole(b"200 OK", b'{"group_level_metrics":[],"agent_metrics":{},"key_metrics":{}}')
            case _:
                return _whole(b"404 Not Found", b'{"detail":"Not Found"}')


class Connection(asyncio.Protocol):
    """One client's connection: HTTP/1.1 with Content-Length, which is what collectors send."""

    _transport: asyncio.Transport

    def __init__(self, answers: Answers) -> None:
        self._answers, self._buffer = answers, bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(_END_OF_HEAD)) >= 0:
            head = bytes(self._buffer[:end])
            first_line, _, fields = head.partition(b"\r\n")
            fields = fields.lower()
            whole = end + len(_END_OF_HEAD) + int(_field(fields, b"content-length") or 0)
            if len(self._buffer) < whole:
                return
            body = bytes(self._buffer[end + len(_END_OF_HEAD) : whole])
            del self._buffer[:whole]
            method, path, _ = first_line.split(b" ", 2)
            self._answer(method, path, body, close=_field(fields, b"connection") == b"close")

    def _answer(self, method: bytes, path: bytes, body: bytes, *, close: bool) -> None:
        answers = self._answers
        if (method, path) != (b"POST", b"/run"):
            self._send([answers.others(method, path)], close=close)
            return
        answers.runs += 1
        answers.waiting += 1
        answers.waiting_max = max(answers.waiting_max, answers.waiting)
        if answers.delay_s:
            asyncio.get_running_loop().call_later(answers.delay_s, self._reply, body, close)
        else:
            self._reply(body, close)

    def _reply(self, body: bytes, close: bool) -> None:  # noqa: FBT001  # call_later passes by position
        self._answers.waiting -= 1
        self._send(self._answers.run(body), close=close)

    def _send(self, pieces: list[bytes], *, close: bool) -> None:
        if self._transport.is_closing():
            return
        self._transport.writelines(pieces)
        if close:
            self._transport.close()


def _field(fields: bytes, name: bytes) -> bytes:
    """The value of a header field, lower-cased like its fields; empty where there is none."""
    _, found, rest = (b"\r\n" + fields).partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


def _head(status: bytes, length: int) -> bytes:
    return (
        b"HTTP/1.1 %b\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\nserver: stub\r\n"
        b"content-length: %d\r\ncontent-type: application/json\r\n\r\n" % (status, length)
    )


def _whole(status: bytes, body: bytes) -> bytes:
    return _head(status, len(body)) + body


def _gym_config(port: int) -> str:
    """What a head says: one agent, and one environment server in front of it."""
    return (
        "bench_agent:\n  responses_api_agents:\n    simple_agent:\n      entrypoint: app.py\n"
        f"      host: {HOST}\n      port: {port}\n"
        "bench_environment_server:\n  environment_servers:\n    legacy_agent:\n      entrypoint: app.py\n"
        "      agent_server: {type: responses_api_agents, name: bench_agent}\n"
        f"      host: {HOST}\n      port: {port}\n"
        f"head_server: {{host: {HOST}, port: {port}}}\n"
    )


async def _serve(shape: Shape, reply_bytes: int, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    listener = socket.create_server((HOST, 0), backlog=BACKLOG)
    port = listener.getsockname()[1]
    answers = Answers(shape, reply_bytes, delay_s, port)
    server = await loop.create_server(lambda: Connection(answers), sock=listener, backlog=BACKLOG)
    async with server:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        ended = asyncio.Event()
        loop.add_reader(sys.stdin.fileno(), ended.set)
        await ended.wait()


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stub")
    parser.add_argument("--shape", choices=("text", "tokens"), default="text")
    parser.add_argument("--reply-bytes", type=int, default=8_000)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each reply to /run")
    options = parser.parse_args()
    asyncio.run(_serve(options.shape, options.reply_bytes, options.delay))


if __name__ == "__main__":
    main()
