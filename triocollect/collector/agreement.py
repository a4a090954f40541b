"""Whether the rows that input and settings give now are the rows of the run that is continued."""

import datetime as dt
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from triocollect.collector.identity import drifted
from triocollect.durable import open_file, unreadable
from triocollect.errors import DriftError
from triocollect.protocol.files import RunFile
from triocollect.rows.materialize import Materialized

_READ_BYTES: Final = 1 << 20


def first_run_file(rows: Materialized, fields: Mapping[str, str]) -> RunFile:
    """The run file of a run that begins."""
    created = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return RunFile(
        run=secrets.token_hex(8),
        created=created,
        rows=rows.rows,
        rows_sha256=rows.sha256,
        fields=dict(fields),
    )


def agree(
    earlier: RunFile,
    rows: Materialized,
    fields: Mapping[str, str],
    accepted: frozenset[str],
    values: Mapping[str, str],
) -> RunFile:
    """The run file to go on with. Raises DriftError naming the fields that differ and are not accepted.

    `values`: the fields in words.
    """
    differ = drifted(earlier, fields)
    if refused := tuple(name for name in differ if name not in accepted):
        raise DriftError(
            f"this is not the run that the output belongs to: {', '.join(refused)} changed since it began "
            f"on {earlier.created}{_from_to(refused, earlier, values)}. Put it back as it was, write to "
            "another --output, or go on with " + " ".join(f"--accept-drift {name}" for name in refused),
            fields=refused,
        )
    if not differ and earlier.rows_sha256 != rows.sha256 and "input" not in accepted:
        raise DriftError(
            "the same input and settings give other rows than when this run began: other servers "
            "(--environment-url, --head-server or the embedded ones), or another configuration of theirs, "
            "resolve them differently. Put it back, write to another --output, or go on with "
            "--accept-drift input",
            fields=("input",),
        )
    if earlier.rows_sha256 != rows.sha256 and not differ:
        differ = ("input",)
    drift = tuple(dict.fromkeys([*earlier.drift, *differ]))
    return RunFile(
        run=earlier.run,
        created=earlier.created,
        rows=rows.rows,
        rows_sha256=rows.sha256,
        fields=dict(fields),
        drift=drift,
    )


def _from_to(names: Sequence[str], earlier: RunFile, values: Mapping[str, str]) -> str:
    """As far as the words for both are known."""
    before = {} if earlier.values is UNSET else earlier.values
    said = [
        f"{name} from {before[name]} to {values[name]}"
        if before[name] != values[name]
        else f"{name} is {values[name]} as before, and something else stands there"
        for name in names
        if name in before and name in values
    ]
    return f" ({'; '.join(said)})" if said else ""


def adopt(
    existing: Path, draft: Path, rows: Materialized, fields: Mapping[str, str], accepted: frozenset[str]
) -> RunFile:
    """The run file for rows of a collector that kept none: its materialised file says what they were.

    One that was cut is a beginning of the present one. Raises DriftError for anything else.
    """
    if not existing.exists() or _is_beginning(existing, draft):
        return first_run_file(rows, fields)
    if "input" in accepted:
        return msgspec.structs.replace(first_run_file(rows, fields), drift=("input",))
    raise DriftError(
        f"{existing} does not hold the rows that input and settings give now. If NeMo Gym began the run, "
        "+gym_task_numbering=true numbers tasks exactly as it does; else put input and settings back, "
        "write to another --output, or go on with --accept-drift input",
        fields=("input",),
    )


def sha256_of(path: Path) -> str | None:
    """Hex digest of a file's bytes; None where there is none."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def _is_beginning(existing: Path, whole: Path) -> bool:
    try:
        with open_file(existing) as short, open_file(whole) as long:
            while piece := short.read(_READ_BYTES):
                if long.read(len(piece)) != piece:
                    return False
    except OSError as error:
        raise unreadable(existing, error) from error
    return True
