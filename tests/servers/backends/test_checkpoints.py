"""A model server in front of a foreign backend, through a checkpoint and a restart."""

import json
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.participant.harness import lifespan_of
from tests.servers.backends.scripted import KINDS
from tests.servers.cutting import TOKEN
from tests.servers.test_generation_cuts import Model, inline
from tests.servers.wired import Deployment
from triocollect.protocol.ids import EpisodeId

pytestmark = pytest.mark.usefixtures("autojump_clock")

# By llama.cpp's own count: it has left out tokens that end inside a character, so that the text has to do.
SAID = {"VLLM": (8, "token_ids"), "SGLang": (8, "continue_final_message"), "LlamaCpp": (6, "text_prefix")}


@asynccontextmanager
async def model(root, server, epoch=1, **more):
    (root / "checkpoints").mkdir(exist_ok=True)
    plan = {"checkpoint_dir": root / "checkpoints", "control_token": TOKEN, "model_url": "http://policy/v1"}
    replaced = {"policy": server.handle_async_request}
    deployment = Deployment(replaced, in_thread=inline, **plan, **more)
    async with lifespan_of(deployment.apps["policy_model"]):
        made = Model(deployment, epoch)
        await made.ok("policy_model", "hello")
        await wait_all_tasks_blocked()  # it has asked the backend what it can
        yield made


@pytest.mark.parametrize("cuts", ["on", "off"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_of_a_run_that_was_stopped_goes_on_and_its_row_says_how(tmp_path, kind, cuts):
    server = KINDS[kind]()
    async with model(tmp_path, server, cuts=cuts) as old, trio.open_nursery() as nursery:
        server.hold_at = 8
        nursery.start_soon(old.ask)
        await wait_all_tasks_blocked()
        counts, _ = await old.committed()
        assert counts["cut"] == (cuts == "on")
        written = old.taken
        nursery.cancel_scope.cancel()
    server.hold_at = None
    async with model(tmp_path, server, epoch=2, cuts=cuts) as fresh:
        await fresh.take_up(written)
        again = json.loads((await fresh.ask(attempt=1)).content)
        (row,) = fresh.rows(EpisodeId("r", 1))
        unsaid = (msgspec.UNSET, msgspec.UNSET)
        assert (row.continued_at, row.continued_by) == (SAID[kind] if cuts == "on" else unsaid)
        whole = json.loads((await fresh.ask(attempt=1, parent=row.call_id)).content)
        assert again["output"][0]["content"] == whole["output"][0]["content"]


@pytest.mark.parametrize("kind", KINDS)
async def test_no_model_goes_on_with_what_another_has_begun(tmp_path, kind, caplog):
    server = KINDS[kind]()
    async with model(tmp_path, server) as old, trio.open_nursery() as nursery:
        server.hold_at = 8
        nursery.start_soon(old.ask)
        await wait_all_tasks_blocked()
        await old.committed()
        written = old.taken
        nursery.cancel_scope.cancel()
    server.hold_at, server.serves = None, "larger"
    async with model(tmp_path, server, epoch=2) as fresh:
        await fresh.take_up(written)
        await fresh.ask(attempt=1)
        (row,) = fresh.rows(EpisodeId("r", 1))
        assert row.continued_at is msgspec.UNSET
    said = [one.getMessage() for one in caplog.records if "generated again" in one.getMessage()]
    assert said == ["note: calls that tiny began are generated again, as larger answers now"]


async def test_a_run_that_survives_its_checkpoint_hears_the_answer_as_if_there_had_been_none(tmp_path):
    server, replies = KINDS["VLLM"](), []
    async with model(tmp_path, server) as old, trio.open_nursery() as nursery:
        server.pace_s = 1.0
        nursery.start_soon(lambda: old.ask(into=replies))
        await trio.sleep(5)
        counts, _ = await old.committed()
        assert counts["cut"] == 1
        await old.opened()
        began = trio.current_time()
    assert trio.current_time() - began > 5
    assert json.loads(replies[0].content)["status"] == "completed"
    (row,) = old.rows(EpisodeId("r"))
    assert row.output_tokens > 20
