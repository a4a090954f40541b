"""What a checkpoint keeps of an episode's calls: those that were delivered, and one that was under way."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from triocollect.capture.ledger import Ledger
from triocollect.capture.rows import LedgerRow
from triocollect.capture.staging import Staging
from triocollect.errors import DamageError
from triocollect.participant import episode_of
from triocollect.protocol.handed_down import NOTE
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import Record
from triocollect.servers.model.filed import FiledCut
from triocollect.servers.states import give_back, keep

_log: Final = logging.getLogger("triocollect.servers")


class KeptCalls(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `state` of a record: the delivered calls of an episode, in that order, and one that was cut."""

    rows: tuple[LedgerRow, ...]
    cut: FiledCut | None = None


def one_each(
    filed: Mapping[EpisodeId, FiledCut], taken: Iterable[tuple[EpisodeId, FiledCut]]
) -> dict[EpisodeId, FiledCut]:
    """The cut to keep of each episode, of those not taken up yet and those of calls under way, in that order.

    Of calls side by side the one that saves most, of the same call the last.
    """
    cuts = dict(filed)
    for episode, cut in taken:
        before = cuts.get(episode)
        if before is None or _same(before, cut) or cut.tokens > before.tokens:
            cuts[episode] = cut
    return cuts


def records_of(
    scope: Iterable[EpisodeId], ledger: Ledger, cuts: Mapping[EpisodeId, FiledCut]
) -> Sequence[Record]:
    """A record for each of these episodes of which there is something to keep."""
    kept = {name: KeptCalls(tuple(ledger.rows(name)), cuts.get(name)) for name in sorted(scope)}
    return [
        Record(rollout_id=name.rollout_id, attempt=name.attempt, kind="model", state=keep(of))
        for name, of in kept.items()
        if of.rows or of.cut is not None
    ]


def read_back(
    records: Iterable[Record], becomes: Mapping[EpisodeId, EpisodeId]
) -> dict[EpisodeId, KeptCalls]:
    """What the records keep, by the attempt to come. Raises StateError."""
    return {
        becomes[name]: give_back(record.state, KeptCalls)
        for record in records
        if (name := episode_of(record)) in becomes
    }


def readable(staging: Staging | None, cuts: Mapping[EpisodeId, FiledCut]) -> dict[EpisodeId, FiledCut]:
    """Those that can be taken up. A cut only saves work, so one that is lost fails nothing. Blocks."""
    if staging is None:
        return {}
    found, faults = dict[EpisodeId, FiledCut](), list[str]()
    for episode, cut in cuts.items():
        try:
            staging.fetch(cut.key)
        except DamageError as error:
            faults.append(str(error))
        else:
            found[episode] = cut
    if faults:
        are = "1 call is" if len(faults) == 1 else f"{len(faults)} calls are"
        _log.warning(NOTE + "%s generated again, from the start: %s", are, faults[0])
    return found


def _same(one: FiledCut, other: FiledCut) -> bool:
    return (one.parent, one.request_sha256) == (other.parent, other.request_sha256)
