"""HTTP/1.1 over trio: each request once, each reply within limits, every connection given back or closed.

`Transport` is imported when it is first used (PEP 562): rows go without httpx, which takes long to load.
"""

import importlib
from typing import TYPE_CHECKING

from triocollect.transport.client import Client
from triocollect.transport.dial import Connect
from triocollect.transport.reply import Reply

if TYPE_CHECKING:
    from triocollect.transport.transport import Transport

__all__ = ["Client", "Connect", "Reply", "Transport"]


def __getattr__(name: str) -> object:
    if name != "Transport":
        raise AttributeError(f"module 'triocollect.transport' has no attribute {name!r}")
    return getattr(importlib.import_module("triocollect.transport.transport"), name)
