"""What the SDK complains of, once and in one line."""

import logging
from collections.abc import Callable
from typing import Final

_SDK: Final = logging.getLogger("opentelemetry")
_MOST: Final = 300  # characters


class Complaints(logging.Handler):
    """Tells the first one; the others are of the same kind. `tell` may be called from any thread.

    While somebody listens they go nowhere else: they come with tracebacks, and often.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell: Final = tell
        self.heard = self.over = False
        for other in tuple(_SDK.handlers):
            if isinstance(other, Complaints) and other.over:
                _SDK.removeHandler(other)
        _SDK.addHandler(self)
        _SDK.propagate = False

    def close(self) -> None:
        """Tell nothing more. It stays for late threads: without any handler they reach a terminal."""
        self.over = True
        _SDK.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`."""
        if self.heard or self.over:
            return
        self.heard = True
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() if error is None else f"{record.getMessage()} {error}"
        said = " ".join(said.split())
        self._tell(f"telemetry: {said if len(said) <= _MOST else said[:_MOST] + '…'} (told once)")
