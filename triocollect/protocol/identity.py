"""Whose work a request is: headers between servers, a path prefix on the way to the model. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from triocollect.protocol.ids import MOST_ATTEMPTS, EpisodeId, rollout_id_fault
from triocollect.protocol.messages import MOST_COUNTED

ROLLOUT_ID: Final = "x-rollout-id"
ROLLOUT_ATTEMPT: Final = "x-rollout-attempt"
RUN: Final = "x-collector-run"  # for the run of which checkpoint directory
EPOCH: Final = "x-collector-epoch"  # and for which of its collectors, one after another
CONTINUED: Final = "x-continued"  # "1": this /run goes on from a restored record, or not at all
PARENT_CALL: Final = "x-parent-call"  # the policy call that the caller knew last
CALL_ID: Final = "x-call-id"  # names a policy call, on its reply
CAPTURE_KEY: Final = "x-capture-key"  # tells an inference worker whose call it is, for its counts

_MOST_TOLD: Final = 40  # characters of what is no number


class Sender(NamedTuple):
    """The collector for which a request is sent, however many servers are between."""

    run: str
    epoch: int


def identity_headers(episode: EpisodeId, sender: Sender | None = None) -> dict[str, str]:
    """The headers that say whose work this is, to an agent or a resources server."""
    whose = {ROLLOUT_ID: episode.rollout_id, ROLLOUT_ATTEMPT: str(episode.attempt)}
    return {**whose, **sender_headers(sender)}


def sender_headers(sender: Sender | None) -> dict[str, str]:
    """The headers that say for which collector; none where it did not say."""
    return {} if sender is None else {RUN: sender.run, EPOCH: str(sender.epoch)}


def episode_in(headers: Mapping[str, str]) -> EpisodeId | None:
    """Whose work it is by its headers (names lower-cased or looked up regardless of case).

    None: nobody's. Raises ValueError, in words, for what no episode can be called.
    """
    if (rollout_id := headers.get(ROLLOUT_ID)) is None:
        return None
    if (fault := rollout_id_fault(rollout_id)) is not None:
        raise ValueError(f"{ROLLOUT_ID}: {fault}")
    return EpisodeId(rollout_id, _count(ROLLOUT_ATTEMPT, headers.get(ROLLOUT_ATTEMPT, "0"), MOST_ATTEMPTS))


def sender_in(headers: Mapping[str, str]) -> Sender | None:
    """For which collector; None where the caller does not say both. Raises ValueError, in words."""
    run, epoch = headers.get(RUN), headers.get(EPOCH)
    return None if run is None or epoch is None else Sender(run, _count(EPOCH, epoch, MOST_COUNTED))


def model_path(episode: EpisodeId) -> str:
    """Where the agent sends this episode's policy calls, and the environment its activation (Gym 0.7.0)."""
    return f"/ng-rollout/{episode.capture_key}/v1/responses"


def close_path(episode: EpisodeId) -> str:
    """Where the agent tells a model server that keeps account of calls that this episode makes no more."""
    return f"/ng-rollout/{episode.capture_key}/close"


def _count(header: str, said: str, below: int) -> int:
    is_short = len(said) <= len(str(below))  # else Python may refuse to read it, in words of its own
    if not (is_short and said.isascii() and said.isdigit() and int(said) < below):
        raise ValueError(f"{header}: {said[:_MOST_TOLD]!r} is not a whole number from 0 to {below - 1}")
    return int(said)
