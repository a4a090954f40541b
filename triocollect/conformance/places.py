"""Where participants are: at a URL, or an application in this process."""

import shlex
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import anyio
import httpx
import msgspec

from triocollect.conformance.examination import Terms, examine
from triocollect.conformance.findings import Examined
from triocollect.conformance.in_process import App, InProcess
from triocollect.errors import UntriedError, reason_of
from triocollect.protocol.messages import PREFIX, Answer
from triocollect.transport import Transport

RESTART_S: Final = 300.0  # for the command, and until another process answers
AGAIN_S: Final = 0.1
_MOST_WORDS: Final = 2000  # bytes of what a command that failed said
MOST_REPLY_BYTES: Final = 64 << 20
_IN_PROCESS: Final = "http://in-process"


async def examine_url(url: str, terms: Terms, restart: Sequence[str] = ()) -> Examined:
    """The participant at a base URL; under trio. `restart`: a command that starts it anew.

    Raises what `examine` does.
    """
    transport = Transport(max_reply_bytes=MOST_REPLY_BYTES)
    async with httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:  # noqa: S113  # every call has its deadline
        anew = partial(_run_restart, client, url, terms.token, restart) if restart else None
        return await examine(client, url, terms, anew)


def examine_app(make: Callable[[], App], terms: Terms, *, backend: str = "asyncio") -> Examined:
    """An application in this process. `make` is called for each process that it stands for.

    `backend` is the event loop that it needs: asyncio or trio. Raises what `examine` does.
    """
    return anyio.run(partial(examine_in_process, make, terms), backend=backend)


async def examine_in_process(make: Callable[[], App], terms: Terms) -> Examined:
    """The same on the event loop that runs."""
    try:
        async with anyio.create_task_group() as tasks:
            app = InProcess(tasks, make)
            await app.restart()
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, timeout=None) as client:  # noqa: S113  # every call has its deadline
                examined = await examine(client, _IN_PROCESS, terms, app.restart)
            await app.stop()
    except BaseExceptionGroup as group:
        raise reason_of(group) from None
    return examined


async def _run_restart(client: httpx.AsyncClient, url: str, token: str, command: Sequence[str]) -> None:
    """Run the command, and wait for another process. Raises UntriedError."""
    before = await _boot(client, url, token)
    said = shlex.join(command)
    with anyio.move_on_after(RESTART_S):
        await _run(command, said)
        while True:
            await anyio.sleep(AGAIN_S)
            if await _boot(client, url, token) not in {None, before}:
                return
    raise UntriedError(f"{said}: after {RESTART_S:g} s no other process answers at {url}")


async def _run(command: Sequence[str], said: str) -> None:
    with tempfile.TemporaryFile() as words:  # not a pipe: a server that stays would hold its other end
        try:
            ended = await anyio.run_process(command, check=False, stdout=words, stderr=words)
        except OSError as error:
            raise UntriedError(f"{said}: {error.strerror}") from None
        if ended.returncode:
            words.seek(0)
            told = words.read(_MOST_WORDS).decode(errors="replace").strip()
            raise UntriedError(f"{said} ended with {ended.returncode}: {told}")


async def _boot(client: httpx.AsyncClient, url: str, token: str) -> str | None:
    headers = {"authorization": f"Bearer {token}"}
    try:
        response = await client.get(f"{url}{PREFIX}/capabilities", headers=headers)
        return msgspec.json.decode(response.content, type=Answer).boot
    except (httpx.RequestError, msgspec.MsgspecError):
        return None
