"""The policy calls of this process and their ledger: what a checkpoint takes of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import msgspec

from triocollect.participant import Admission, episode_of
from triocollect.participant.restoring import Restoring
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Mode, PrepareReport
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.model.calls import Call, Calls
from triocollect.servers.model.ledger import CallLedger, LedgerRow, LedgerRows
from triocollect.servers.states import give_back, keep


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Response(msgspec.Struct, frozen=True):
    id: str | None = None
    usage: _Usage | None = None


@final
class Capture(Restoring[Record, None]):
    """Calls rest from their admission to their delivery: what is under way at a cut is made again.

    `restored` names the episodes whose rows were imported and that have not called since.
    """

    mode: Mode = "exported"

    def __init__(self, instance: str, admission: Admission) -> None:
        super().__init__("model", instance, admission, Record)
        self.calls = Calls()
        self.ledger = CallLedger()

    def admit(self, episode: EpisodeId, parent: str | None) -> None:
        """A call of this episode comes, from a caller that knows the conversation up to `parent`."""
        if episode in self.restored:
            del self.restored[episode]
            self.ledger.cut_back(episode, parent)

    def deliver(self, call: Call, response: bytes) -> None:
        """The response of this call goes out now."""
        if call.episode is not None:
            self.ledger.commit(call.episode, _row(call, response))

    def end(self, episode: EpisodeId) -> None:
        """The episode makes no call any more, and nothing of it will be continued."""
        self.restored.pop(episode, None)
        self.ledger.end(episode)

    def report(self) -> PrepareReport:
        """`undelivered`: calls under way and responses that are held."""
        return self.admission.report(counts={"undelivered": len(self.calls.serving)})

    def free(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Drop the rows of these episodes."""
        super().free(gone)
        self.ledger.drop(gone)

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """Drop the imported rows of episodes that have not called since."""
        unclaimed = self.restored.keys() - (keep or frozenset())
        super().free(unclaimed.__contains__)
        self.ledger.drop(unclaimed.__contains__)

    def export(self, scope: frozenset[EpisodeId]) -> Sequence[Record]:
        """The delivered calls of the scope."""
        kept = {episode: LedgerRows(tuple(self.ledger.rows(episode))) for episode in sorted(scope)}
        return [
            Record(rollout_id=name.rollout_id, attempt=name.attempt, kind="model", state=keep(of))
            for name, of in kept.items()
            if of.rows
        ]

    async def install(
        self, records: Sequence[Record], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Import the rows of each record for the attempt to come. Raises StateError."""
        imported = {
            becomes[name]: give_back(record.state, LedgerRows).rows
            for record in records
            if (name := episode_of(record)) in becomes
        }
        await self.discard(None)
        later = {episode.rollout_id for episode in imported}
        self.ledger.drop(lambda episode: episode.rollout_id in later)
        for episode, rows in imported.items():
            self.ledger.take_over(episode, rows)
        self.restored = dict.fromkeys(imported)
        return tuple(imported)


def _row(call: Call, response: bytes) -> LedgerRow:
    try:
        said = msgspec.json.decode(response, type=_Response)
    except NOT_JSON:
        said = _Response()  # whatever it is, it was delivered
    usage = said.usage or _Usage()
    return LedgerRow(
        call_id=call.id,
        parent=call.parent,
        request_sha256=call.request_sha256,
        response_id=said.id,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )
