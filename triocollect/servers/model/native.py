"""An inference worker that speaks the Responses API and, if it is ours, cuts generations by itself."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final, final

import msgspec

from triocollect.errors import PeerError
from triocollect.protocol.identity import CALL_ID, CAPTURE_KEY
from triocollect.protocol.inference import CONTINUE_CUT, CUTS, THAW, Inventory, NotCut, Receipt
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.calls import Answer, Call
from triocollect.servers.model.upstream import respond
from triocollect.servers.peers import Peer

_MS: Final = 1000


@final
class Native:
    """The `Source` of a model server whose worker answers `/responses`.

    `cuts`: it answers `/cuts` too, and goes on after what it has staged.
    """

    def __init__(self, worker: Peer, headers: Mapping[str, str], *, cuts: bool) -> None:
        self._worker: Final = worker
        self._headers: Final = headers
        self._cuts: Final = cuts
        self._freeze = ""

    async def respond(self, call: Call) -> Answer:
        """The answer to one call. Raises PeerError."""
        headers = {**self._headers, CALL_ID: call.id}
        if call.episode is not None:
            headers[CAPTURE_KEY] = call.episode.capture_key
        if not self._cuts or call.cut is None:
            return Answer((await respond(self._worker, call, headers)).body)
        return await respond(self._worker, call, {**headers, CONTINUE_CUT: call.cut.key})

    async def cut(self, calls: Sequence[Call], frozen_s: float) -> Receipt:
        """Have the worker freeze and stage them. Raises PeerError."""
        if not self._cuts:
            return Receipt(calls=tuple(NotCut(call.id, "the worker does not cut") for call in calls))
        self._freeze = secrets.token_hex(8)
        reply = await self._worker.post(CUTS, self._inventory(calls, round(frozen_s * _MS)), self._headers)
        try:
            return msgspec.json.decode(reply.body, type=Receipt)
        except NOT_JSON as error:
            raise PeerError(f"{self._worker.name} sent no receipt: {error}", passing=False) from error

    async def thaw(self, calls: Sequence[Call]) -> None:
        """Have the worker go on. Raises PeerError."""
        if self._cuts:
            await self._worker.post(THAW, self._inventory(calls, 0), self._headers)

    def _inventory(self, calls: Sequence[Call], frozen_ms: int) -> bytes:
        named = tuple(call.id for call in calls)
        return msgspec.json.encode(Inventory(freeze=self._freeze, calls=named, frozen_ms=frozen_ms))
