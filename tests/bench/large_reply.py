"""An environment whose only replies are huge and slow, and a model server that nobody asks, as a process.

Both take part in checkpoints, without anything to capture. The first two words on stdout are their URLs; the
token is that of TRIOCOLLECT_CONTROL_TOKEN. `python -m tests.bench.large_reply ROOT BYTES SECONDS`.
"""

import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from triocollect.participant import Admission, ControlPlane, Participant, Record
from triocollect.protocol.messages import Kind

_PIECE_BYTES: Final = 1 << 20


def environment(size: int, seconds: float) -> Starlette:
    """Answers each row with so many bytes over so many seconds, however fast the client could read."""
    head, tail = b'{"reward":1.0,"response":{"output":[],"padding":"', b'"}}'
    pieces = max(1, (size - len(head) - len(tail)) // _PIECE_BYTES)

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(pieces):
            yield b"x" * _PIECE_BYTES
            await trio.sleep(seconds / pieces)
        yield tail

    async def run(request: Request) -> StreamingResponse:
        await request.body()
        return StreamingResponse(body(), media_type="application/json")

    return Starlette(routes=[Route("/run", run, methods=["POST"])])


async def main(root: Path, size: int, seconds: float) -> None:
    """Serve both until killed."""
    token = os.environ["TRIOCOLLECT_CONTROL_TOKEN"]
    apps: dict[Kind, Starlette] = {"environment": environment(size, seconds), "model": Starlette()}
    async with trio.open_nursery() as nursery:
        for kind, app in apps.items():
            config = Config()
            config.bind, config.accesslog = ["127.0.0.1:0"], None
            admission = Admission()
            plane = ControlPlane(
                app, Participant(kind, kind, admission, Record), admission, token=token, root=root
            )
            (url,) = await nursery.start(partial(serve, plane, config, mode="asgi"))
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
