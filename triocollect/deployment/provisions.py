"""What has to be there before a server process is started: the packages, a port, the key."""

import errno
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from triocollect.errors import UsageError
from triocollect.protocol.handed_down import BACKLOG

_SERVING: Final = ("hypercorn", "starlette", "jsonschema", "regex")


def require_servers() -> None:
    """Raises UsageError, with the command that helps, where the `servers` extra is missing."""
    if missing := [name for name in _SERVING if find_spec(name) is None]:
        raise UsageError(
            f"serving needs {', '.join(missing)}: pip install 'triocollect[servers]' "
            "(a run on servers of your own does without: give --head-server or --environment-url)"
        )


def listen(name: str, host: str, port: int) -> socket.socket:
    """A listening socket for the server of this name; port 0 picks one. Raises UsageError."""
    try:
        return socket.create_server((host, port), backlog=BACKLOG)
    except OSError as error:
        taken = isinstance(error, PermissionError) or error.errno == errno.EADDRINUSE
        advice = "end what listens there, or give another port" if taken else "give another --host"
        raise UsageError(
            f"the {name} server cannot listen on {host}:{port}: {error.strerror}; {advice}"
        ) from error


def need_free(address: str, name: str) -> None:
    """Raises UsageError where nobody can be scraped at HOST:PORT, for the server of this name."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host.strip("[]"), int(port)), family=family).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--prometheus: the {name} server cannot be scraped at {address}: {why}; "
            "end what listens there, or give another port: each server takes one, from the given one upwards"
        ) from error


def read_api_key(file: Path | None) -> str | None:
    """The key for the model's URL, if there is a file with one. Raises UsageError where it cannot be read."""
    try:
        return None if file is None else file.read_text().strip()
    except OSError as error:
        raise UsageError(f"--model-api-key-file: cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--model-api-key-file: {file} holds no text") from error
