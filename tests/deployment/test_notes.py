"""What a server notes for people reaches them."""

import logging

import pytest
import trio

from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import plan_for
from triocollect.deployment.processes import deploy

pytestmark = pytest.mark.processes

PATIENCE_S = 120.0
ON_IMPORT = r"""
import sys
if "model" in sys.argv:
    sys.stderr.write("policy_model: hm\npolicy_model: note: it serves tiny\npolicy_model: hm\n")
    sys.stderr.flush()
sys.stdin.read()
"""


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines, self.first = [], trio.Event()

    def emit(self, record):
        self.lines.append(record.getMessage())
        self.first.set()


async def test_a_servers_note_is_passed_on_and_nothing_else_that_it_says(tmp_path, monkeypatch):
    (tmp_path / "hypercorn").mkdir()
    (tmp_path / "hypercorn" / "__init__.py").write_text(ON_IMPORT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    heard, logger = Heard(), logging.getLogger("triocollect.deployment")
    logger.addHandler(heard)
    try:
        with trio.fail_after(PATIENCE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(deploy, plan_for(["counter"], ServersConfig()))
                await heard.first.wait()
                nursery.cancel_scope.cancel()
    finally:
        logger.removeHandler(heard)
    assert heard.lines == ["policy_model: it serves tiny"]
