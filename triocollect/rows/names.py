"""Names of the files beside an output, as Gym 0.7.0 derives them, and two of our own."""

from pathlib import Path


def failures_path(output: Path) -> Path:
    """`rollouts.jsonl` -> `rollouts_failures.jsonl`."""
    return _beside(output, "_failures.jsonl")


def materialized_path(output: Path) -> Path:
    """`rollouts.jsonl` -> `rollouts_materialized_inputs.jsonl`."""
    return _beside(output, "_materialized_inputs.jsonl")


def aggregate_path(output: Path) -> Path:
    """`rollouts.jsonl` -> `rollouts_aggregate_metrics.json`."""
    return _beside(output, "_aggregate_metrics.json")


def run_path(output: Path) -> Path:
    """`rollouts.jsonl` -> `rollouts_run.json`: which run the output belongs to."""
    return _beside(output, "_run.json")


def torn_path(output: Path) -> Path:
    """`rollouts.jsonl` -> `rollouts_torn.jsonl`: what was cut off torn files."""
    return _beside(output, "_torn.jsonl")


def _beside(output: Path, ending: str) -> Path:
    return output.with_name(output.stem + ending)
