"""triocollect: a rollout collector that owns its rows.

`import triocollect` loads neither trio nor httpx: each name is imported when it is first used (PEP 562).
"""

import importlib
from typing import TYPE_CHECKING, Final

from triocollect.version import VERSION

if TYPE_CHECKING:
    from triocollect.checkpoint.orders import NotPublished, Published
    from triocollect.collector.door import collect, collect_sync, running
    from triocollect.config import Config
    from triocollect.config.load import load_config
    from triocollect.errors import TriocollectError
    from triocollect.report.run_report import Report

__version__: Final = VERSION

_HOMES: Final = {
    "Config": "triocollect.config",
    "NotPublished": "triocollect.checkpoint.orders",
    "Published": "triocollect.checkpoint.orders",
    "Report": "triocollect.report.run_report",
    "TriocollectError": "triocollect.errors",
    "collect": "triocollect.collector.door",
    "collect_sync": "triocollect.collector.door",
    "load_config": "triocollect.config.load",
    "running": "triocollect.collector.door",
}

__all__ = [
    "Config",
    "NotPublished",
    "Published",
    "Report",
    "TriocollectError",
    "collect",
    "collect_sync",
    "load_config",
    "running",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'triocollect' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
