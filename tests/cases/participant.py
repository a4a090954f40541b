"""An environment server of raw bytes: it answers what a case says, and counts what happened to it."""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

PATIENCE_S: Final = 30.0


class Received(NamedTuple):
    """One request. `connection` numbers connections from 0; names of headers in lower case."""

    connection: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_continued(self) -> bool:
        """Whether it says that the episode goes on from where a checkpoint has it."""
        return self.headers.get("x-continued") == "1"

    @property
    def episode(self) -> tuple[int, int, int]:
        """(task index, rollout index, attempt)."""
        row = json.loads(self.body)
        return row["_ng_task_index"], row["_ng_rollout_index"], row.get("_ng_attempt_index", 0)


def reply(body: bytes) -> bytes:
    """A reply of status 200."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def success(text: str) -> bytes:
    """A good reply."""
    return reply(json.dumps({"reward": 1.0, "text": text}).encode())


class Participant(socketserver.ThreadingTCPServer):
    """Serves in threads of its own until the block ends.

    `answer(request)` gives the bytes of a reply after which the connection is closed; None for a good reply
    on a connection that stays open. While `gate` is cleared no reply goes out.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.requests: Final[list[Received]] = []
        self.answer: Callable[[Received], bytes | None] = lambda _: None
        self.text = "fresh"
        self.arrived, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        self.connections = 0
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.shutdown()
        super().__exit__()


class _Conversation(socketserver.StreamRequestHandler):
    server: Participant
    timeout = PATIENCE_S

    def handle(self) -> None:
        connection, self.server.connections = self.server.connections, self.server.connections + 1
        try:
            while request := self._receive(connection):
                self.server.requests.append(request)
                self.server.arrived.set()
                answer = self.server.answer(request)
                assert self.server.gate.wait(PATIENCE_S), "nobody opened the gate"
                if answer is not None:
                    self._say_last(answer)
                    return
                self.wfile.write(success(self.server.text))
        except ConnectionError:
            return

    def _say_last(self, answer: bytes) -> None:
        """Bytes and the end of the connection arrive as one, so that no request falls in between."""
        self.connection.sendall(answer, socket.MSG_MORE)
        self.connection.shutdown(socket.SHUT_WR)

    def _receive(self, connection: int) -> Received | None:
        first = self.rfile.readline().decode()
        if not first:
            return None
        method, path, _ = first.split(" ")
        headers = {}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        return Received(connection, method, path, headers, body)
