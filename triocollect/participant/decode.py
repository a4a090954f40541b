"""Control calls as they arrive: decoded, and refused where they make no sense in any phase. Pure."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

import msgspec

from triocollect.protocol import messages
from triocollect.protocol.ids import EpisodeId, rollout_id_fault
from triocollect.protocol.messages import MOST_COUNTED, Call

MOST_RETIRED: Final = 1024
MOST_MS: Final = 7 * 24 * 3600 * 1000  # a week: a lease has to end

_CALLS: Final[Mapping[str, type[Call]]] = {
    kind.__name__.lower(): kind
    for kind in (
        messages.Hello,
        messages.Prepare,
        messages.Commit,
        messages.Restore,
        messages.Resume,
        messages.Retire,
        messages.Forget,
    )
}


def knows(verb: str) -> bool:
    """Whether there is such a call."""
    return verb in _CALLS


def decode_call(verb: str, body: bytes) -> Call:
    """The call of this verb. Raises ValueError, saying what is wrong with it."""
    try:
        call = msgspec.json.decode(body, type=_CALLS[verb])
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    for name in ("epoch", "operation", "budget_ms", "lease_ms"):
        if not 0 <= getattr(call, name) < MOST_COUNTED:
            raise ValueError(f"{name} is not from 0 to {MOST_COUNTED - 1}")
    if max(call.budget_ms, call.lease_ms) > MOST_MS:
        raise ValueError(f"budget_ms and lease_ms are at most {MOST_MS}")
    if not call.run:
        raise ValueError("run is empty")
    match call:
        case messages.Commit() | messages.Restore():
            if (fault := directory_fault(call.directory)) is not None:
                raise ValueError(fault)
            _check_episodes(call.scope)
        case messages.Retire():
            if not 1 <= len(call.episodes) <= MOST_RETIRED:
                raise ValueError(f"1 to {MOST_RETIRED} episodes are retired at a time")
            _check_episodes(call.episodes)
        case _:
            pass
    return call


def directory_fault(directory: str) -> str | None:
    """Why this is no place below the checkpoint directory; None when it is one."""
    path = PurePosixPath(directory)
    plain = path.parts and "\0" not in directory and path.as_posix() == directory
    if not plain or path.is_absolute() or ".." in path.parts:
        return f"{directory!r} is no place below the checkpoint directory"
    return None


def _check_episodes(episodes: Iterable[EpisodeId]) -> None:
    for episode in episodes:
        if (fault := rollout_id_fault(episode.rollout_id)) is not None:
            raise ValueError(fault)
        if isinstance(episode, messages.RestoredEpisode) and episode.becomes <= episode.attempt:
            raise ValueError(f"{episode.capture_key} becomes a later attempt, not {episode.becomes}")
