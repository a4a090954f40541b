"""HTTP/1.1 over trio: each request once, each reply within limits, every connection given back or closed."""

from triocollect.transport.dial import Connect
from triocollect.transport.reply import Reply
from triocollect.transport.transport import Transport

__all__ = ["Connect", "Reply", "Transport"]
