"""Small input files, and what becomes of them."""

from collections.abc import Callable
from pathlib import Path

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.rows.materialize import Materialized, draft_rows

A_ROW = b'{"responses_create_params":{"input":"q"},"agent_ref":{"name":"a"}}'


def a_row(**fields: str) -> bytes:
    """A row with more fields, each given as JSON."""
    return A_ROW[:-1] + b"".join(f',"{name}":{value}'.encode() for name, value in fields.items()) + b"}"


def materialize(
    folder: Path,
    data: bytes,
    routing: RoutingConfig | None = None,
    *,
    agent_of_source: Callable[[str], str] | None = None,
    agent_of_server: Callable[[str], str | None] | None = None,
    **settings: object,
) -> tuple[list[bytes], Materialized]:
    """The lines of the materialised file."""
    path = folder / "input.jsonl"
    path.write_bytes(data)
    draft, materialized = draft_rows(
        InputConfig(path=path, **settings),
        routing or RoutingConfig(),
        folder / "out.jsonl",
        agent_of_source=agent_of_source,
        agent_of_server=agent_of_server,
    )
    draft.commit()
    return (folder / "out.jsonl").read_bytes().splitlines(), materialized
