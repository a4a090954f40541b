"""What `startup first_run` is measured against: decode each row, two keys, encode, write."""

import sys
from pathlib import Path

import orjson


def materialize(rows: Path, materialized: Path) -> None:
    """One line per row, with its indices."""
    with rows.open("rb") as lines, materialized.open("wb") as out:
        for task, line in enumerate(lines):
            row = orjson.loads(line)
            row["_ng_task_index"] = task
            row["_ng_rollout_index"] = 0
            out.write(orjson.dumps(row) + b"\n")


if __name__ == "__main__":
    materialize(Path(sys.argv[1]), Path(sys.argv[2]))
