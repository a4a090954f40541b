"""Which worker a rollout belongs to. Pure."""

from zlib import crc32


def owner_of(rollout_id: str, workers: int) -> int:
    """The number, from 1, of the one of so many workers that keeps all of this rollout.

    The same in every process and on every machine, so that nobody has to be asked.
    """
    return crc32(rollout_id.encode()) % workers + 1
