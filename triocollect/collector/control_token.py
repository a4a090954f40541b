"""The token that the collector shows to participants: from a file or the environment, never from a flag."""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from triocollect.errors import UsageError

VARIABLE: Final = "TRIOCOLLECT_CONTROL_TOKEN"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES: Final = 4096


def control_token(file: Path | None, *, embedded: bool) -> str:
    """The token: of the file, else of TRIOCOLLECT_CONTROL_TOKEN; an embedded deployment gets one of its own.

    Raises UsageError where there is none, or where others may read the file.
    """
    if embedded:
        return secrets.token_hex(24)
    token = _of_file(file) if file is not None else os.environ.get(VARIABLE, "").strip()
    if not token:
        raise UsageError(
            "servers that take checkpoints need a control token: "
            f"give --control-token-file, or set {VARIABLE}"
        )
    if not (token.isascii() and token.isprintable()):  # it travels in a header
        raise UsageError(f"the control token of {file or VARIABLE} has other than printable ASCII characters")
    return token


def _of_file(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & _OTHERS:
                raise UsageError(f"{file}: others may read the control token; chmod 600 {file}")
            return opened.read(_MOST_BYTES).decode().strip()
    except OSError as error:
        raise UsageError(f"--control-token-file: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UsageError(f"--control-token-file: {file} is not text") from None
