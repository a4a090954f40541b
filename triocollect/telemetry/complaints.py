"""What goes wrong on the way to a store, once and in one line; most of it the SDK complains of."""

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

    While somebody listens those of the SDK go nowhere else: they come with tracebacks, and often.
    `heard`: whether there was one of these.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell: Final = tell
        self.heard = self.over = self._told = False
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
        self.heard = True
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() if error is None else f"{record.getMessage()} {error}"
        self.complain(_of_a_store(record.name, said) or _first_words(said))

    def complain(self, what: str) -> None:
        """Of something, unless one was told already."""
        if not (self._told or self.over):
            self._told = True
            self._tell(f"telemetry: {what} (told once)")


def not_taken(within_s: float) -> str:
    """Of a store that has not answered by the end: it may have been silent all the time."""
    stores = " or ".join(dict.fromkeys(_store(signal)[1] for signal in ("TRACES", "METRICS")))
    return f"not all is taken at {stores} within {within_s:g} s at the end; the rest is lost. Does it answer?"


def sent_elsewhere(status: int) -> str:
    """Of spans that are answered with a redirect: nobody follows it, and the SDK takes it for a success."""
    variable, where = _store("TRACES")
    return (
        f"{where} answers with {status}, to send it elsewhere, which is not done: it is lost. Does "
        f"{variable} name the store itself, with https where it wants that?"
    )


def _of_a_store(logger: str, said: str) -> str | None:
    """What an exporter complains of, in words of ours where it is that it reached nobody."""
    reason = _UNREACHED.search(said) if logger.startswith(_EXPORTERS) else None
    if reason is None:
        return None
    variable, where = _store("METRICS" if "metric" in logger else "TRACES")
    return (
        f"nobody takes it at {where} ({reason[0].lower()}); rows go on, and what is not sent is lost. Is it "
        f"running, and does {variable} name it?"
    )


def _store(signal: str) -> tuple[str, str]:
    """Which variable says where a signal goes, and where that is."""
    variables = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
    variable = next((one for one in variables if os.environ.get(one)), variables[-1])
    return variable, _USER.sub("", os.environ.get(variable) or _DEFAULT)


def _first_words(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= _MOST else said[:_MOST] + "…"
