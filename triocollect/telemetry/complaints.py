"""What the SDK complains of, once and in one line."""

import logging
import os
import re
from collections.abc import Callable
from typing import Final

_SDK: Final = logging.getLogger("opentelemetry")
_EXPORTERS: Final = "opentelemetry.exporter"
_UNREACHED: Final = re.compile(
    r"connection refused|connection reset[a-z ]*|name or service not known|no route to host|"
    r"temporary failure in name resolution|network is unreachable|timed out",
    re.IGNORECASE,
)
_USER: Final = re.compile(r"(?<=//)[^/]*@")
_DEFAULT: Final = "http://localhost:4318"  # the standard's
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
        told = _of_a_store(record.name, said) or _first_words(said)
        self._tell(f"telemetry: {told} (told once)")


def _of_a_store(logger: str, said: str) -> str | None:
    """What an exporter complains of, in words of ours where it is that it reached nobody."""
    reason = _UNREACHED.search(said) if logger.startswith(_EXPORTERS) else None
    if reason is None:
        return None
    signal = "METRICS" if "metric" in logger else "TRACES"
    variables = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
    variable = next((one for one in variables if os.environ.get(one)), variables[-1])
    where = _USER.sub("", os.environ.get(variable) or _DEFAULT)
    return (
        f"nobody takes it at {where} ({reason[0].lower()}); rows go on, and what is not sent is lost. Is it "
        f"running, and does {variable} name it?"
    )


def _first_words(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= _MOST else said[:_MOST] + "…"
