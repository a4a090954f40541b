"""Staged cuts of generations, as the checkpoints of a directory name them (`triocollect/capture/`)."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import UNSET

from triocollect.capture.retention import unnamed
from triocollect.capture.staging import STAGING
from triocollect.checkpoint.names import COLLECTION
from triocollect.durable import read_at_most
from triocollect.protocol.manifests import MOST_COLLECTION_BYTES, Collection
from triocollect.protocol.values import NOT_JSON


def packs_named(collection: Collection) -> frozenset[str]:
    """The packs that a checkpoint's records refer to."""
    return frozenset(
        key.partition(":")[0] for ref in collection.participants if ref.kept is not UNSET for key in ref.kept
    )


def unneeded_packs(root: Path, staying: Iterable[Path]) -> tuple[Path, ...]:
    """What is staged and that none of these checkpoints names: nothing, where one of them cannot be read.

    Raises StorageError.
    """
    named = set[str]()
    for folder in staying:
        try:
            data = read_at_most(folder / COLLECTION, MOST_COLLECTION_BYTES)
            named |= packs_named(msgspec.json.decode(data, type=Collection))
        except FileNotFoundError:
            continue  # it was never published
        except (OSError, *NOT_JSON):
            return ()
    return unnamed(root / STAGING, named)
