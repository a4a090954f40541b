"""A store that takes OTLP over HTTP, does nothing with it, and says how many spans there were when asked.

`python -m tests.bench.store` says its port on standard output, and ends with standard input.
"""

import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_taken: list[bytes] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/v1/traces":
            _taken.append(body)
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(str(sum(_spans_of(body) for body in _taken)).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


def _spans_of(body: bytes) -> int:
    message = ExportTraceServiceRequest.FromString(body)
    return sum(len(scope.spans) for one in message.resource_spans for scope in one.scope_spans)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)  # whatever connection is open


if __name__ == "__main__":
    main()
