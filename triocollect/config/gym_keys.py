"""Keys of Gym's configuration that are not settings of ours: refused, without effect, or said differently.

Source: the configuration keys of Gym 0.7.0's `gym eval run`. A key is refused where leaving it out would
write other records than its author asked for.
"""

from collections.abc import Mapping
from typing import Final

from triocollect.config import words
from triocollect.config.given import Given

_KEY_BELONGS_IN_A_FILE: Final = (
    "is a secret, and arguments and settings files are read by others; "
    "put the key into a file and name it with --model-api-key-file"
)
REFUSED: Final = {
    "observability_enabled": "is not supported: records would lack what it adds",
    "model_call_capture_dir": "is not supported: model calls are not merged into records",
    "token_id_capture": "is not supported: token ids are not captured",
    "retry_invalid_judge_responses": "is not supported: finished rows are never run again",
    "rollout_collection_driver": "is not supported: rows are always collected by triocollect",
    "policy_api_key": _KEY_BELONGS_IN_A_FILE,
    "model_api_key": _KEY_BELONGS_IN_A_FILE,
    "control_token": "is a secret; put it into a file and name it with --control-token-file",
}
WITHOUT_EFFECT: Final = {
    "retain_results_in_memory": "results are never kept in memory",
    "disable_health_check": "no health files are written",
    "health_check_workers": "no health files are written",
    "health_check_ignored_checks": "no health files are written",
    "upload_rollouts": "nothing is uploaded",
    "upload_rollouts_to_wandb": "nothing is uploaded",
    "config_paths": "servers are found through the head server",
}
ALWAYS_ON: Final = "route_failures_to_sidecar"
RESUME: Final = "resume_from_cache"
KEYS: Final = frozenset({*REFUSED, *WITHOUT_EFFECT, ALWAYS_ON, RESUME})


def refusal(root: str, given: Given) -> str | None:
    """Why this key cannot be taken; None when it can. `root` is the key before its first dot."""
    if root == ALWAYS_ON and _switched(given.value) is False:
        return f"{given.label()}: failed rows always go to the sidecar; one failure never ends a run"
    if root in REFUSED and _asks_for_something(given.value):
        return f"{given.label()}: {REFUSED[root]}"
    return None


def resume_mode(given: Given) -> Given:
    """`resume_from_cache` in our words. Raises ValueError for what is neither true nor false."""
    switched = _switched(given.value)
    if switched is None:
        raise ValueError(f"{given.label()}: needs true or false, not {words.shown(given.value)}")
    return Given("must" if switched else "never", given.spelled, given.place)


def _switched(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _asks_for_something(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_asks_for_something, (value["enabled"],) if "enabled" in value else value.values()))
    return value not in (None, False, "", "false", "null")
