"""The policy calls of this process and their ledger: what a checkpoint takes of them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, final

from triocollect.capture.ledger import CutBack, Deleted, Delivered, Forgotten, Imported, Ledger, Retired
from triocollect.capture.staging import Staging, packs_of
from triocollect.participant import Admission
from triocollect.participant.hooks import Later
from triocollect.participant.restoring import Restoring
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.protocol.messages import Mode, PrepareReport
from triocollect.protocol.refusals import Refusal
from triocollect.servers.model.account import Account
from triocollect.servers.model.answers import row_of
from triocollect.servers.model.calls import Answer, Call, Calls
from triocollect.servers.model.cuts import Cuts, Source
from triocollect.servers.model.filed import FiledCut, FiledCuts
from triocollect.servers.model.kept import one_each, read_back, readable, records_of

PATIENCE: Final = 0.1  # of a prepare's budget, for receipts
MOST_PATIENCE_S: Final = 3.0
MOST_FROZEN_S: Final = 3600.0


@final
class Capture(Restoring[Record, None]):
    """Calls rest from their admission to their delivery: at a cut what is under way is cut, or made again.

    `restored` names the episodes whose rows were imported and that have not called since. Without a `staging`
    nothing is cut, and no cut is taken up.
    """

    mode: Mode = "exported"

    def __init__(
        self,
        instance: str,
        admission: Admission,
        source: Source,
        account: Account,
        staging: Staging | None = None,
    ) -> None:
        super().__init__("model", instance, admission, Record)
        self.calls = Calls()
        self.account: Final = account
        self.filed = FiledCuts()
        self.staging: Final = staging
        self.cuts: Final = None if staging is None else Cuts(self.calls, source, staging, account.in_thread)
        self._kept: tuple[str, ...] = ()
        self._ended: Final[set[EpisodeId]] = set()  # while closed

    @property
    def ledger(self) -> Ledger:
        """What is known of the calls so far."""
        return self.account.ledger

    def close(self) -> None:
        """Have everything cut that is under way."""
        super().close()
        if self.cuts is not None:
            lease = self.admission.lease
            patience_s = min(MOST_PATIENCE_S, PATIENCE * lease.budget_s)
            self.cuts.close(min(MOST_FROZEN_S, lease.longest_s()), patience_s)

    def open(self) -> None:
        """Have it go on; what has ended meanwhile is over now."""
        super().open()
        if self.cuts is not None:
            self.cuts.open()
        for episode in self._ended:
            self.end(episode)
        self._ended.clear()

    def admit(self, episode: EpisodeId, parent: str | None) -> None:
        """A call of this episode comes, from a caller that knows the conversation up to `parent`."""
        if episode in self.restored:
            del self.restored[episode]
            self.account.note(CutBack(episode, parent))

    def take_cut(self, episode: EpisodeId, parent: str | None, request_sha256: str) -> FiledCut | None:
        """The cut that a call of this episode goes on from."""
        return self.filed.take(episode, parent, request_sha256)

    async def deliver(self, call: Call, answer: Answer) -> Refusal | None:
        """The answer to this call goes out next, or why it must not; its row is on disk, if that can be."""
        if call.episode is None:
            return None
        row = row_of(call, answer)
        if (refused := self.ledger.refusal(call.episode, row)) is None:
            self.account.note(Delivered(call.episode, row))
            await self.account.written()
        return refused

    def end(self, episode: EpisodeId) -> None:
        """The episode makes no call any more, and nothing of it will be continued.

        While closed that waits: a checkpoint may hold a boundary before this end. A call of it that is under
        way is one for nobody, whose caller's going was not noticed here: it stops.
        """
        if self.admission.closed:
            self._ended.add(episode)
            return
        self.admission.end_work_for(episode)
        self.restored.pop(episode, None)
        self.filed.drop(episode.__eq__)
        self.account.note(Deleted((episode,)))
        self.freed(episode)

    def report(self) -> PrepareReport:
        """`undelivered`: calls under way and answers that are held.

        Of these are `cut`: what was generated is kept, `held`: the whole answer is, and `not_cut`: generated
        again by who continues. `kept_tokens`: that are not.
        """
        serving = self.calls.serving.values()
        cuts = [cut for call in serving if (cut := self._cut_of(call)) is not None]
        whole = sum(cut.whole for cut in cuts)
        return self.admission.report(
            counts={
                "undelivered": len(serving),
                "cut": len(cuts) - whole,
                "held": whole,
                "not_cut": len(serving) - len(cuts),
                "kept_tokens": sum(cut.tokens for cut in cuts),
            }
        )

    async def stop(self, episodes: Sequence[EpisodeId]) -> None:
        """Fence first, so that no row comes any more, then end the calls and remove the rows.

        Raises StorageError when all of that is done, and not on disk: who asks again has it written again.
        """
        self.account.note(Retired(tuple(episodes)))
        await self.account.written()
        await super().stop(episodes)
        await self.account.durable()

    def forget(self, rollout_ids: Sequence[str]) -> None:
        """Free what is left of these rollouts, their fences too."""
        super().forget(rollout_ids)
        self.account.note(Forgotten(tuple(rollout_ids)))

    async def clear(self) -> None:
        """Free everything."""
        await super().clear()
        self.account.note(Forgotten(None))
        await self.account.written()

    def free(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Drop the rows of these episodes."""
        super().free(gone)
        self.filed.drop(gone)
        if of_them := tuple(filter(gone, self.ledger.episodes)):
            self.account.note(Deleted(of_them))

    async def discard(self, keep: frozenset[EpisodeId] | None) -> None:
        """Drop the imported rows of episodes that have not called since."""
        unclaimed = self.restored.keys() - (keep or frozenset())
        self.free(unclaimed.__contains__)

    def export(self, scope: frozenset[EpisodeId]) -> Later[Record]:
        """The delivered calls of the scope, and what is kept of those that are not, once that is staged."""
        return partial(self._exported, scope)

    async def _exported(self, scope: frozenset[EpisodeId]) -> Sequence[Record]:
        if self.cuts is not None:
            await self.cuts.settled()
        filed = {name: cut for name in scope if (cut := self.filed.of(name)) is not None}
        taken = [
            (call.episode, cut)
            for call in self.calls.serving.values()
            if call.episode in scope and (cut := self._cut_of(call)) is not None
        ]
        cuts = one_each(filed, taken)
        self._kept = packs_of(cut.key for cut in cuts.values())
        return records_of(scope, self.ledger, cuts)

    def kept(self) -> Sequence[str]:
        """The packs that hold the cuts which were just exported."""
        return self._kept

    def _cut_of(self, call: Call) -> FiledCut | None:
        return None if self.cuts is None else self.cuts.of(call)

    async def install(
        self, records: Sequence[Record], becomes: Mapping[EpisodeId, EpisodeId]
    ) -> Sequence[EpisodeId]:
        """Import what each record keeps for the attempt to come. Raises StateError.

        Of an episode without a record nothing was delivered: whatever dead executions left of it goes, too.
        """
        imported = read_back(records, becomes)
        cuts = {episode: of.cut for episode, of in imported.items() if of.cut is not None}
        found = await self.account.in_thread(partial(readable, self.staging, cuts))
        await self.discard(None)
        later = {episode.rollout_id for episode in becomes.values()}
        self.filed.drop(lambda episode: episode.rollout_id in later)
        for episode in becomes.values():
            self.account.note(Imported(episode, imported[episode].rows if episode in imported else ()))
        await self.account.written()  # the checkpoint has them too
        self.filed.file(found)
        self.restored = dict.fromkeys(imported)
        return tuple(imported)
