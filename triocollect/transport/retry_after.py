"""When a server wants to be asked again (RFC 9110, 10.2.3). Pure."""

from email.utils import parsedate_to_datetime
from typing import Final

_MOST_DIGITS: Final = 12


def retry_after_s(value: str, sent: str = "") -> float | None:
    """A `Retry-After` in seconds: a number, or a date counted from `sent`, the reply's own.

    None for what says neither, and for a date beside a reply without one: it is of another clock.
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:_MOST_DIGITS])
    try:
        until, now = parsedate_to_datetime(value), parsedate_to_datetime(sent)
        return max(0.0, (until - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
