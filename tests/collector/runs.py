"""A run in a test: rows, a caller's own dispatch or a server, no threads on the path."""

import json
from pathlib import Path

import msgspec
import trio

from triocollect.collector.run import run
from triocollect.collector.setup import Setup
from triocollect.config import Config, DispatchConfig, InputConfig, OutputConfig, ServersConfig
from triocollect.errors import reason_of
from triocollect.transport import Transport


async def inline(work):
    """No thread: simulated time would run on while one works."""
    await trio.lowlevel.checkpoint()
    work()


class RunFolder:
    """A folder with an input and an output."""

    def __init__(self, folder: Path, rows: int = 4, **fields):
        self.input, self.output = folder / "in.jsonl", folder / "out.jsonl"
        self.failures = folder / "out_failures.jsonl"
        self.folder = folder
        self.write_rows([{"prompt": f"p{n}", **fields} for n in range(rows)])

    def write_rows(self, rows):
        self.input.write_text("".join(json.dumps(self.row(row)) + "\n" for row in rows))

    @staticmethod
    def row(fields):
        return {"responses_create_params": {"input": "x"}, "agent_ref": {"name": "a1"}, **fields}

    def config(self, *, url=None, rows=None, output=None, **dispatch):
        return Config(
            input=InputConfig(path=self.input, **(rows or {})),
            output=OutputConfig(path=self.output, disable_aggregation=True, **(output or {})),
            servers=ServersConfig(environment_url=url),
            dispatch=DispatchConfig(**dispatch),
        )

    async def collect(
        self, dispatch=None, listener=None, hand_over=None, blocking=inline, connect=None, **settings
    ):
        config = self.config(**settings)
        transport = Transport(max_reply_bytes=config.dispatch.max_reply_bytes, connect=connect)
        try:
            return await run(
                Setup(
                    config=config,
                    transport=transport,
                    listener=listener or (lambda _: None),
                    dispatch=dispatch,
                    hand_over=hand_over,
                    blocking=blocking,
                )
            )
        except BaseExceptionGroup as group:
            raise reason_of(group) from group
        finally:
            await transport.aclose()

    def records(self):
        return [msgspec.json.decode(line) for line in self.output.read_bytes().splitlines()]

    def sidecar(self):
        return [msgspec.json.decode(line) for line in self.failures.read_bytes().splitlines()]

    def written(self):
        return sorted((r["_ng_task_index"], r["_ng_rollout_index"]) for r in self.records())

    def snapshot(self):
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir()) if path.is_file()}


async def rewarded(row, attempt):
    """An environment that takes a second and is content."""
    await trio.sleep(1)
    return {"reward": 1.0, "prompt": row["prompt"]}
