"""A store of telemetry as a process: takes OTLP over HTTP and writes down what came, a JSON object a line.

`python receiver.py FILE [--status N] [--after S]` says its port on standard output.
"""

import argparse
import gzip
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SIGNALS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--status", type=int, default=200, help="what it answers")
    parser.add_argument("--after", type=float, default=0.0, help="seconds until it answers")
    given = parser.parse_args()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            message = SIGNALS[self.path]()
            message.ParseFromString(body)
            told = {"path": self.path, "headers": dict(self.headers), "body": MessageToDict(message)}
            with given.file.open("a") as file:
                file.write(json.dumps(told) + "\n")
            time.sleep(given.after)
            self.send_response(given.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)  # noqa: T201  # how the port is told
        server.serve_forever()


if __name__ == "__main__":
    main()
