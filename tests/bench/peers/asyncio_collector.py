"""The collector that anybody would write with asyncio: what `dispatch` is measured against.

Fixed text. It does what a collector of an evaluation must and nothing more: decode each row, give it its
two indices, encode, POST, decode the reply, stamp it, encode, write and flush. One task per row, a semaphore
in front of the requests, results taken in the order of their completion, a connector without limits, no
cookies. It has no features that cost anything: no retries, no failure file, no resume.
"""

import argparse
import asyncio
from pathlib import Path

import aiohttp
import orjson

JSON_HEADERS = {"Content-Type": "application/json"}
STAMPS = ("_ng_task_index", "_ng_rollout_index", "agent_ref")


async def collect(rows: list[dict[str, object]], output: Path, url: str, concurrency: int) -> None:
    """One POST per row, so many at a time; one line per reply."""
    places = asyncio.Semaphore(concurrency)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
    ) as session:

        async def fly(row: dict[str, object]) -> dict[str, object]:
            async with (
                places,
                session.post(url, data=orjson.dumps(row), headers=JSON_HEADERS) as response,
            ):
                response.raise_for_status()
                record: dict[str, object] = orjson.loads(await response.read())
            for stamp in STAMPS:
                if stamp in row:
                    record[stamp] = row[stamp]
            return record

        with output.open("ab") as out:
            for landed in asyncio.as_completed([asyncio.create_task(fly(row)) for row in rows]):
                out.write(orjson.dumps(await landed) + b"\n")
                out.flush()


def read_rows(path: Path) -> list[dict[str, object]]:
    """The rows of the input with their indices."""
    rows: list[dict[str, object]] = []
    with path.open("rb") as lines:
        for task, line in enumerate(lines):
            row = orjson.loads(line)
            row["_ng_task_index"] = task
            row["_ng_rollout_index"] = 0
            rows.append(row)
    return rows


def main() -> None:
    """Collect, then end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", "--input", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("-c", "--concurrency", type=int, required=True)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    rows = read_rows(options.input)
    asyncio.run(collect(rows, options.output, f"{options.url}/run", options.concurrency))


if __name__ == "__main__":
    main()
