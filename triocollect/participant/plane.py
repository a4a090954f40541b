"""The ASGI door of a participant: `/checkpoint/v1/*` is answered here, all else by the application."""

import hmac
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Generic, cast, final

import anyio
import anyio.to_thread
import msgspec

from triocollect.errors import UsageError
from triocollect.participant.admission import Admission
from triocollect.participant.asgi import App, Receive, Scope, Send
from triocollect.participant.calls import Calls
from triocollect.participant.decode import decode_call, knows
from triocollect.participant.errands import refuse
from triocollect.participant.hooks import Hooks, R
from triocollect.participant.operations import Refuse
from triocollect.participant.records import Shelf
from triocollect.participant.standing import InThread, Standing
from triocollect.protocol.messages import PREFIX, Answer
from triocollect.protocol.refusals import Code, Refusal, RefusalBody, status_of
from triocollect.telemetry import bind, count

MOST_BODY_BYTES: Final = 64 << 20  # the scope of a commit: some 100 bytes per episode
_INSTANCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OK: Final = 200


@final
class ControlPlane(Generic[R]):
    """Middleware around an application whose work goes through `admission`.

    `token` is what the collector has to show, `root` the checkpoint directory as this process sees it. The
    server has to run the application's lifespan: writes that outlast their call live in it.
    Raises UsageError for an empty token, and for an instance that cannot name a folder.
    """

    def __init__(  # noqa: PLR0913  # the last one is for tests, where time is simulated
        self,
        app: App,
        hooks: Hooks[R],
        admission: Admission,
        *,
        token: str,
        root: Path,
        in_thread: InThread = anyio.to_thread.run_sync,
    ) -> None:
        if not token:
            raise UsageError("a server that takes part in checkpoints needs a control token")
        if not _INSTANCE.fullmatch(hooks.instance):
            raise UsageError(f"{hooks.instance!r} names no folder: letters, digits, '.', '_', '-' do")
        boot = secrets.token_hex(8)
        shelf = Shelf(root, hooks.kind, hooks.instance, boot)
        self._app: Final = app
        self._authorization: Final = b"Bearer " + token.encode()
        self._standing: Final = Standing(hooks, admission, shelf, in_thread, boot)
        self._calls: Final = Calls(self._standing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        path = str(scope.get("path", ""))
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http" and (path == PREFIX or path.startswith(f"{PREFIX}/")):
            await self._control(scope, path.removeprefix(PREFIX).removeprefix("/"), receive, send)
        else:
            await self._app(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with anyio.create_task_group() as tasks:
            self._standing.tasks = tasks
            try:
                await self._app(scope, receive, send)
            finally:
                self._standing.tasks = None
                if (cut := self._standing.cut) is not None:
                    cut.publication.stop()
                tasks.cancel_scope.cancel()

    async def _control(self, scope: Scope, verb: str, receive: Receive, send: Send) -> None:
        arrival = anyio.current_time()
        headers = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])  # by ASGI
        if not self._authorized(headers):
            answer: Answer | Refuse = Refuse(Code.UNAUTHORIZED, "the control token is missing or wrong")
        else:
            try:
                answer = await self._answer(str(scope["method"]), verb, receive, arrival)
            except Exception as error:  # noqa: BLE001  # the hooks are somebody else's code
                answer = refuse(error)
        await self._send(answer, send)

    def _authorized(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        shown = next((value for name, value in headers if name.lower() == b"authorization"), b"")
        return hmac.compare_digest(shown, self._authorization)

    async def _answer(self, method: str, verb: str, receive: Receive, arrival: float) -> Answer | Refuse:
        if self._standing.tasks is None:
            return Refuse(
                Code.COORDINATOR_UNAVAILABLE,
                "the application's lifespan is not running: start the server with lifespan on",
            )
        if method == "GET" and (told := await self._told(verb)) is not None:
            return told
        if method != "POST" or not knows(verb):
            return Refuse(Code.BAD_REQUEST, f"there is no {method} {PREFIX}/{verb}")
        try:
            call = decode_call(verb, await _body(receive))
        except ValueError as error:
            return Refuse(Code.BAD_REQUEST, str(error))
        bind(call.run, call.epoch, call.operation)
        return await self._calls.answer(call, arrival)

    async def _told(self, verb: str) -> Answer | None:
        """What is asked without an order; None: there is no such question."""
        match verb:
            case "status":
                await self._calls.brought_up_to_date()
                return self._calls.status()
            case "place":
                return await self._calls.place()
            case "capabilities":
                return self._calls.capabilities()
            case _:
                return None

    async def _send(self, answer: Answer | Refuse, send: Send) -> None:
        status, body = _OK, msgspec.json.encode(answer)
        if isinstance(answer, Refuse):
            count("refusals", code=answer.code)
            refusal = Refusal(code=answer.code, detail=answer.detail)
            if answer.code is not Code.UNAUTHORIZED:  # who has no token learns nothing
                standing = self._standing
                refusal = msgspec.structs.replace(
                    refusal, phase=standing.phase.value, operation=standing.operations.current
                )
            status, body = status_of(answer.code), msgspec.json.encode(RefusalBody(refusal))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ValueError("the caller went away")
        body += cast("bytes", message.get("body", b""))  # by ASGI
        if len(body) > MOST_BODY_BYTES:
            raise ValueError(f"a body has at most {MOST_BODY_BYTES} bytes")
        if not message.get("more_body", False):
            return bytes(body)
