"""What the rewards of a run say. Pure: records in, numbers out."""

from triocollect.metrics.aggregate import Aggregation, aggregate
from triocollect.metrics.entries import Credited, Entry, file_bytes, labels_of
from triocollect.metrics.summary import (
    TELLING_TASKS,
    Interval,
    RewardMean,
    Scores,
    Summary,
    bounds,
    pass_at_k,
)

__all__ = [
    "TELLING_TASKS",
    "Aggregation",
    "Credited",
    "Entry",
    "Interval",
    "RewardMean",
    "Scores",
    "Summary",
    "aggregate",
    "bounds",
    "file_bytes",
    "labels_of",
    "pass_at_k",
]
