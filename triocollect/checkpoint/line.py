"""One exchange with a control plane: what comes back is an answer, a refusal, or something strange."""

from types import TracebackType
from typing import Final, Self, TypeVar, final

import httpx
import msgspec
from attrs import frozen

from triocollect.errors import ControlError
from triocollect.protocol.messages import PREFIX, Answer
from triocollect.protocol.refusals import Code, Refusal, RefusalBody
from triocollect.protocol.values import NOT_JSON
from triocollect.telemetry import carried
from triocollect.transport.foreign import request_of

_PASSING_CODES: Final = frozenset({Code.BUSY, Code.COORDINATOR_UNAVAILABLE, Code.DEADLINE_EXCEEDED})
_PASSING_STATUSES: Final = frozenset({429, 502, 503, 504})
_QUOTED: Final = 200  # characters of a strange reply that are shown

A = TypeVar("A", bound=Answer)


class UnansweredError(ControlError):
    """No reply came; the call may have arrived."""


class StrangeError(ControlError):
    """An answer with an error status that is no refusal of the protocol."""

    def __init__(self, message: str, *, participant: str, status: int) -> None:
        super().__init__(message, participant=participant)
        self.status: Final = status


def is_passing(error: ControlError) -> bool:
    """Whether the participant did not come to it, so that the same call may do better a moment later."""
    if isinstance(error, StrangeError):
        return error.status in _PASSING_STATUSES
    return isinstance(error, UnansweredError) or error.code in _PASSING_CODES


class PackedError(Exception):
    """A reply is packed, which was not asked for; says how."""


@final
class ControlClient:
    """Whoever may speak to control planes: the token on every call, no redirect, no proxy, nothing twice.

    The caller's cancel scopes are the only deadlines. Closes the transport at the end of its block.
    """

    def __init__(self, token: str, transport: httpx.AsyncBaseTransport) -> None:
        self._transport: Final = transport
        self._headers: Final = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.aclose()

    async def exchange(self, url: str, body: bytes | None) -> tuple[int, bytes]:
        """GET, or POST with a body of JSON; status and body of the reply.

        A question is the last one on its connection: one that stays leads to one process of several.
        Raises httpx.RequestError, and PackedError: unpacked, a small body could be of any size.
        """
        method, headers = "GET", {**self._headers, "connection": "close"}
        if body is not None:
            method, headers = "POST", {**self._headers, "content-type": "application/json"}
        request = request_of(method, url, {**headers, **carried()}, body)
        response = await self._transport.handle_async_request(request)
        try:
            if (coding := response.headers.get("content-encoding", "identity")) != "identity":
                raise PackedError(coding)
            return response.status_code, await response.aread()
        finally:
            await response.aclose()


@frozen
class Line:
    """The routes below the base URL `url`; errors name `who`."""

    client: ControlClient
    url: str
    who: str

    async def ask(self, route: str, body: bytes | None, reply: type[A]) -> A:
        """GET, or POST with a body. Raises ControlError, for whatever a server may do."""
        status, data = await self._exchange(route, body)
        if status == httpx.codes.OK:
            try:
                return msgspec.json.decode(data, type=reply)
            except NOT_JSON as error:
                raise self._fault(
                    f"answered {route} with what is no such reply ({error}): {quoted(data)}"
                ) from None
        if (refusal := _refusal(data)) is None:
            raise StrangeError(
                f"answered {route} with {status}: {quoted(data)}", participant=self.who, status=status
            )
        raise ControlError(
            f"refused {route}: {refusal.detail} ({refusal.code})", participant=self.who, code=refusal.code
        )

    async def _exchange(self, route: str, body: bytes | None) -> tuple[int, bytes]:
        try:
            return await self.client.exchange(f"{self.url}{PREFIX}/{route}", body)
        except PackedError as coding:
            raise self._fault(f"answered {route} packed ({coding}), which was not asked for") from None
        except httpx.RequestError as error:
            why = str(error) or type(error).__name__
            raise UnansweredError(f"{route} brought no answer: {why}", participant=self.who) from error

    def _fault(self, what: str) -> ControlError:
        return ControlError(what, participant=self.who)


def _refusal(data: bytes) -> Refusal | None:
    try:
        return msgspec.json.decode(data, type=RefusalBody).error
    except NOT_JSON:
        return None


def quoted(data: bytes) -> str:
    """The beginning of what a participant said, fit for a terminal."""
    text = data[: 4 * _QUOTED].decode(errors="replace")
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")
