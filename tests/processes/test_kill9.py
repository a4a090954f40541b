"""A run that is killed at any moment, fifty times in a row, ends with every row exactly once.

The account is kept outside the collector: the server writes down what it was asked, the acknowledgements
come after the fsync, and the files are read back.
"""

import json
import os
import random
import subprocess
import threading
from collections import Counter

import pytest
import trio

from tests.gym.stub import Stub
from tests.processes.commands import triocollect

pytestmark = pytest.mark.processes

ROWS, LIVES, SEED = 2000, 50, 20240229


class Account:
    """What the world outside saw of all lives of the run."""

    def __init__(self):
        self.acknowledged = set()
        self.lock = threading.Lock()

    def listen(self, read_end):
        with os.fdopen(read_end) as lines:
            for line in lines:
                with self.lock:
                    self.acknowledged.add(line.strip())


def live(url, folder, account, lifetime_s):
    """One life: start, and kill after so many seconds; None lets it end. The exit code."""
    read_end, write_end = os.pipe()
    listener = threading.Thread(target=account.listen, args=(read_end,))
    listener.start()
    arguments = ["run", "-i", folder / "in.jsonl", "-o", folder / "out.jsonl", "-c", "8"]
    arguments += ["--environment-url", url, "--progress", "none", "--disable-aggregation"]
    environment = {**os.environ, "TRIOCOLLECT_ACK_FD": str(write_end)}
    run = triocollect(*arguments, env=environment, pass_fds=[write_end], stderr=subprocess.PIPE)
    os.close(write_end)
    try:
        _, words = run.communicate(timeout=lifetime_s)
    except subprocess.TimeoutExpired:
        run.kill()
        _, words = run.communicate()
    listener.join()
    assert b"Traceback" not in words
    return run.returncode


def whole_lines(path):
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def keys_of(lines):
    records = map(json.loads, lines.splitlines())
    return Counter(f"{record['_ng_task_index']}-{record['_ng_rollout_index']}" for record in records)


async def test_fifty_kills_lose_nothing_and_repeat_nothing(tmp_path):
    rows = [{"responses_create_params": {"input": str(n)}, "agent_ref": {"name": "a"}} for n in range(ROWS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    output, server, account = tmp_path / "out.jsonl", Stub(delay_s=0.05), Account()
    moments = random.Random(SEED)
    killed = 0
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        for nth in range(LIVES):
            before = whole_lines(output)
            lifetime_s = moments.uniform(0.0, 1.2) if nth % 10 else 2.5  # now and then past an fsync
            code = await trio.to_thread.run_sync(live, url, tmp_path, account, lifetime_s)
            killed += code == -9
            assert code in {-9, 0}
            assert whole_lines(output).startswith(before)
            assert account.acknowledged <= set(keys_of(whole_lines(output)))
        code = await trio.to_thread.run_sync(live, url, tmp_path, account, None)
        nursery.cancel_scope.cancel()
    assert code == 0
    assert keys_of(output.read_bytes()) == {f"{task}-0": 1 for task in range(ROWS)}
    assert account.acknowledged
    assert killed > LIVES // 2, "most lives have to end by the kill, or this shows nothing"
    asked = Counter(json.loads(request.body)["_ng_task_index"] for request in server.runs())
    assert set(asked) == set(range(ROWS))
    assert sum(asked.values()) - ROWS <= 8 * killed, "only rows in flight at a kill are asked again"
