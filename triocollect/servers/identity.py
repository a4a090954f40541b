"""Whose work a request is: two headers between servers, a path prefix on the way to the model. Pure."""

from collections.abc import Mapping
from typing import Final

from triocollect.protocol.ids import EpisodeId, rollout_id_fault

ROLLOUT_ID: Final = "x-rollout-id"
ROLLOUT_ATTEMPT: Final = "x-rollout-attempt"
CAPTURE_KEY: Final = "x-capture-key"  # tells an inference worker whose call it is, for its counts


def identity_headers(episode: EpisodeId) -> dict[str, str]:
    """The headers that say whose work this is, to an agent or a resources server."""
    return {ROLLOUT_ID: episode.rollout_id, ROLLOUT_ATTEMPT: str(episode.attempt)}


def episode_of(headers: Mapping[str, str]) -> EpisodeId | None:
    """Whose work it is by its headers (names lower-cased or looked up regardless of case).

    None: nobody's. Raises ValueError, in words, for what no episode can be called.
    """
    if (rollout_id := headers.get(ROLLOUT_ID)) is None:
        return None
    if (fault := rollout_id_fault(rollout_id)) is not None:
        raise ValueError(f"{ROLLOUT_ID}: {fault}")
    attempt = headers.get(ROLLOUT_ATTEMPT, "0")
    if not (attempt.isascii() and attempt.isdigit()):
        raise ValueError(f"{ROLLOUT_ATTEMPT}: {attempt!r} is not an attempt: a whole number from 0")
    return EpisodeId(rollout_id, int(attempt))


def model_path(episode: EpisodeId) -> str:
    """Where the agent sends this episode's policy calls, and the environment its activation (Gym 0.7.0)."""
    return f"/ng-rollout/{episode.capture_key}/v1/responses"
