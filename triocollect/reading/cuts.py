"""What a checkpoint keeps of the calls that were being generated when it was taken."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET

from triocollect.capture.staging import STAGING, Staging
from triocollect.errors import DamageError, StateError, StorageError
from triocollect.protocol.manifests import Collection, Record
from triocollect.protocol.values import NOT_JSON
from triocollect.records.lines import Lines
from triocollect.report.verify import Cuts
from triocollect.servers.states import give_back


class _Cut(msgspec.Struct, frozen=True):
    key: str
    tokens: int


class _State(msgspec.Struct, frozen=True):
    cut: _Cut | None = None


def cuts_of(folder: Path, collection: Collection) -> Cuts | msgspec.UnsetType:
    """From the model servers' records and what is staged; UNSET where nothing was cut, or cannot be told."""
    if all(ref.kept is UNSET for ref in collection.participants):
        return UNSET
    staging, calls, tokens, lost = Staging(folder.parent / STAGING), 0, 0, 0
    try:
        for cut in _cuts(folder, collection):
            try:
                staging.fetch(cut.key)
            except DamageError:
                lost += 1
            else:
                calls, tokens = calls + 1, tokens + cut.tokens
    except (StateError, StorageError, *NOT_JSON):
        return UNSET
    return Cuts(calls, tokens, lost)


def _cuts(folder: Path, collection: Collection) -> Iterator[_Cut]:
    for ref in collection.participants:
        if ref.kept is UNSET:
            continue
        for path in (folder / ref.manifest).parent.glob("records-*.jsonl"):
            for line in Lines(path):
                state = msgspec.json.decode(b"" if line.data is None else line.data, type=Record).state
                if (cut := give_back(state, _State).cut) is not None:
                    yield cut
