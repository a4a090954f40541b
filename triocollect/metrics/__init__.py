"""What the rewards of a run say. Pure: records in, numbers out."""

from triocollect.metrics.aggregate import Aggregation, aggregate
from triocollect.metrics.summary import Interval, RewardMean, Scores, Summary, bounds, pass_at_k

__all__ = [
    "Aggregation",
    "Interval",
    "RewardMean",
    "Scores",
    "Summary",
    "aggregate",
    "bounds",
    "pass_at_k",
]
