"""Calls that are being generated at a checkpoint go on, after a restart, at the token where they were cut."""

import json
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.participant.harness import lifespan_of
from tests.servers.cutting import ACTIVATE, TOKEN, Crew
from tests.servers.wired import Deployment
from triocollect.capture.staging import STAGING, Staging
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.inference import CUTS, THAW, Finished, Inventory, Receipt, StagedCut
from triocollect.servers.model.filed import FiledCut
from triocollect.servers.states import digest_of

pytestmark = pytest.mark.usefixtures("autojump_clock")

WORDS = "Repeat exactly: a b c d e f g h"  # eight tokens, two seconds
RATE = 4.0
R = EpisodeId("r")


async def inline(work):
    await trio.lowlevel.checkpoint()
    return work()


class Model(Crew):
    """The model server and its worker, spoken to by a collector."""

    def worker(self, path, handler):
        """Have `handler(request, real)` answer one path of the worker; `real(request)` is its own answer."""
        app = httpx.ASGITransport(self.deployment.apps["inference"])

        async def answer(request):
            if request.url.path == f"/v1{path}":
                return await handler(request, app.handle_async_request)
            return await app.handle_async_request(request)

        self.deployment.replaced["inference"] = answer

    async def ask(self, words=WORDS, attempt=0, parent=None, into=None, **params):
        headers = {} if parent is None else {"x-parent-call": parent}
        key = EpisodeId("r", attempt).capture_key
        async with self.deployment.client("policy_model") as client:
            body = {"input": words, **params}
            reply = await client.post(ACTIVATE.replace("/r/", f"/{key}/"), json=body, headers=headers)
        if into is not None:
            into.append(reply)
        return reply

    async def committed(self, attempt=0):
        """Its counts, when this attempt is written, as `taken` says; how long that took."""
        self.operation += 1
        began = trio.current_time()
        report = (await self.ok("policy_model", "prepare"))["report"]
        assert report["blocker_count"] == 0, report
        scope = [{"rollout_id": "r", "attempt": attempt}]
        self.taken = self.place(), await self.ok("policy_model", "commit", **self.place(), scope=scope)
        return self.taken[1]["counts"], trio.current_time() - began

    async def opened(self):
        await self.ok("policy_model", "resume")

    async def take_up(self, taken, attempt=0, becomes=1):
        place, answer = taken
        self.operation += 1
        scope = [{"rollout_id": "r", "attempt": attempt, "becomes": becomes}]
        sha256 = answer["manifest"]["sha256"]
        await self.ok("policy_model", "restore", **place, manifest_sha256=sha256, scope=scope)
        await self.opened()

    async def generated(self):
        """How many tokens the worker has made; calls that are under way are not counted."""
        async with self.deployment.client("inference") as client:
            return (await client.get("/calls")).json()["total"]["output_tokens"]

    @property
    def rows(self):
        return self.hooks("policy_model").ledger.rows


@asynccontextmanager
async def model(root, *, epoch=1, **more):
    (root / "checkpoints").mkdir(exist_ok=True)
    plan = {"checkpoint_dir": root / "checkpoints", "control_token": TOKEN, "tokens_per_s": RATE, **more}
    deployment = Deployment(in_thread=inline, **plan)
    async with lifespan_of(deployment.apps["policy_model"]):
        made = Model(deployment, epoch)
        await made.ok("policy_model", "hello")
        yield made


@asynccontextmanager
async def generating(root, after=1.0, **more):
    """(the model, its replies) while a call is under way for so long."""
    async with model(root, **more) as old, trio.open_nursery() as nursery:
        replies = []
        nursery.start_soon(lambda: old.ask(into=replies))
        await trio.sleep(after)
        yield old, replies, nursery
        nursery.cancel_scope.cancel()


def staged(root):
    return Staging(root / "checkpoints" / STAGING)


async def uninterrupted(root, **params):
    root.mkdir()
    async with model(root) as whole:
        return (await whole.ask(**params)).content


async def test_a_call_that_was_cut_goes_on_at_that_token_and_ends_as_if_it_had_not_been(tmp_path):
    async with generating(tmp_path) as (old, _, _):
        counts, took = await old.committed()
        assert counts == {"undelivered": 1, "cut": 1, "held": 0, "not_cut": 0, "kept_tokens": 4}
        assert took == 0.0
        written = old.taken
        await trio.sleep(30)  # it stands: nothing is generated that would be lost
    before = await old.generated()
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        began = trio.current_time()
        reply = await fresh.ask(attempt=1)
        assert trio.current_time() - began == 1.0, "the second half only"
        assert (before, await fresh.generated()) == (4, 4)
        (row,) = fresh.rows(EpisodeId("r", 1))
        assert (row.continued_at, row.continued_by, row.output_tokens) == (4, "worker", 8)
        await fresh.ask(attempt=1)
        assert await fresh.generated() == 4 + 8, "a cut is used once"
    assert reply.content == await uninterrupted(tmp_path / "whole")


async def test_what_is_staged_ends_at_one_token_and_is_named_by_the_checkpoint(tmp_path):
    async with generating(tmp_path, after=1.2) as (old, _, _):
        await old.committed()
        _, answer = old.taken
    (pack,) = answer["kept"]
    cut = staged(tmp_path).fetch(f"{pack}:0")
    assert (cut.text, cut.tokens, cut.logprobs) == ("a b c d", 4, (0.0,) * 4)
    assert answer["exported"] == ["r"], "it had no call before, and has one under way"


async def test_a_run_that_goes_on_after_a_checkpoint_loses_nothing_but_the_pause(tmp_path):
    async with generating(tmp_path, after=1.1) as (old, replies, _):
        await old.committed()
        await trio.sleep(10)
        await old.opened()
        await trio.sleep(0.85)
        assert replies == []
        await trio.sleep(0.1)
        (reply,) = replies
        assert await old.generated() == 8
        assert old.rows(R)[0].continued_at is msgspec.UNSET
    assert reply.content == await uninterrupted(tmp_path / "whole")


async def never(_request, _real):
    await trio.sleep_forever()


async def late(request, real):
    answer = await real(request)
    await trio.sleep(60)
    return answer


async def broken(_request, _real):
    return httpx.Response(500, json="on fire")


async def unknown(_request, _real):
    return httpx.Response(404, text="no such page")


async def gone(_request, _real):
    raise httpx.ConnectError("connection refused")


async def garbled(_request, _real):
    return httpx.Response(200, content=b'{"calls": [{"outcome": "cut"')


async def empty(_request, _real):
    return httpx.Response(200, json={"calls": []})


def lying(lie):
    """Change what the receipt says of a call."""

    async def answer(request, real):
        reply = await real(request)
        (told,) = json.loads(await reply.aread())["calls"]
        return httpx.Response(200, json={"calls": lie(told)})

    return answer


LIES = {
    "a call twice": lambda cut: [cut, cut],
    "an unknown call": lambda cut: [{**cut, "call_id": "nobody's"}],
    "a key that nobody has": lambda cut: [{**cut, "key": f"{'a' * 64}:0"}],
    "a key that is a path": lambda cut: [{**cut, "key": "../LATEST"}],
    "another line": lambda cut: [{**cut, "key": cut["key"].replace(":0", ":1")}],
    "more tokens than there are": lambda cut: [{**cut, "tokens": cut["tokens"] + 1}],
    "no tokens": lambda cut: [{**cut, "tokens": 0}],
    "a word that there is not": lambda cut: [{**cut, "outcome": "perhaps"}],
    "no number": lambda cut: [{**cut, "tokens": "four"}],
    "finished, and it is not": lambda cut: [{"outcome": "finished", "call_id": cut["call_id"]}],
    "not cut": lambda cut: [{"outcome": "not_cut", "call_id": cut["call_id"], "why": "no wish to"}],
}
BAD_WORKERS = {
    **{one.__name__: one for one in (never, late, broken, unknown, gone, garbled, empty)},
    **{name: lying(lie) for name, lie in LIES.items()},
}


@pytest.mark.parametrize("how", BAD_WORKERS)
async def test_a_worker_that_cuts_badly_delays_little_and_fails_nothing(tmp_path, how):
    async with generating(tmp_path) as (old, replies, _):
        old.worker(CUTS, BAD_WORKERS[how])
        counts, took = await old.committed()
        assert counts == {"undelivered": 1, "cut": 0, "held": 0, "not_cut": 1, "kept_tokens": 0}
        assert took <= 2.0, "a tenth of the budget"
        written = old.taken
        assert (written[1]["exported"], written[1]["kept"]) == ([], [])
        await old.opened()
        await trio.sleep(3)
        assert [reply.status_code for reply in replies] == [200]
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        reply = await fresh.ask(attempt=1)
        assert await fresh.generated() == 8, "generated again, all of it"
    assert reply.content == replies[0].content == await uninterrupted(tmp_path / "whole")


async def test_a_folder_that_nothing_can_be_staged_in_costs_no_call_and_is_said_once(tmp_path, caplog):
    async with generating(tmp_path) as (old, replies, _):
        staged(tmp_path).folder.write_text("no folder")
        for _checkpoint in range(2):
            counts, _ = await old.committed()
            assert (counts["cut"], counts["not_cut"]) == (0, 1)
            await old.opened()
        await trio.sleep(3)
        assert [reply.status_code for reply in replies] == [200]
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith("note: calls under way are not kept, and will be generated again: cannot create ")


async def test_only_the_commit_waits_for_what_is_staged(tmp_path):
    async with generating(tmp_path) as (old, _, _):
        old.worker(CUTS, never)
        old.operation += 1
        began = trio.current_time()
        await old.ok("policy_model", "prepare")
        assert trio.current_time() == began
        scope = [{"rollout_id": "r", "attempt": 0}]
        await old.ok("policy_model", "commit", **old.place(), scope=scope)
        assert trio.current_time() == began + 2.0


async def test_a_commit_that_waits_for_what_is_staged_ends_with_its_checkpoint(tmp_path):
    answers = []
    async with generating(tmp_path) as (old, replies, nursery):
        old.worker(CUTS, never)
        old.operation += 1
        await old.ok("policy_model", "prepare")
        scope = [{"rollout_id": "r", "attempt": 0}]

        async def commit():
            answers.append(await old.call("policy_model", "commit", **old.place(), scope=scope))

        nursery.start_soon(commit)
        await trio.sleep(0.5)
        await old.opened()
        await wait_all_tasks_blocked()
        ((status, body),) = answers
        assert (status, body["error"]["code"]) == (409, "stale_checkpoint")
        await trio.sleep(1.5)
        assert [reply.status_code for reply in replies] == [200]
    assert not list((tmp_path / "checkpoints").glob("ckpt-*"))


async def test_a_limit_that_only_the_worker_understands_costs_no_other_call_its_cut(tmp_path):
    async def lenient(request, real):
        asked = json.loads(request.content)
        asked.pop("max_output_tokens", None)
        return await real(httpx.Request("POST", request.url, json=asked, headers=named(request)))

    def named(request):
        return {name: one for name, one in request.headers.items() if name.startswith("x-")}

    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        old.worker("/responses", lenient)
        nursery.start_soon(old.ask)
        nursery.start_soon(lambda: old.ask(f"{WORDS} i", max_output_tokens="as many as it takes"))
        await trio.sleep(1.0)
        counts, _ = await old.committed()
        assert (counts["cut"], counts["not_cut"]) == (2, 0)
        nursery.cancel_scope.cancel()


async def test_an_answer_that_is_held_is_kept_whole_and_never_generated_again(tmp_path):
    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        stop = old.deployment.stop("inference", "/v1/responses", "after")
        nursery.start_soon(old.ask)
        await stop.reached.wait()  # its answer is on its way
        closing = []

        async def close():
            closing.append(await old.committed())

        nursery.start_soon(close)
        await trio.sleep(0.5)
        stop.go.set()
        await trio.sleep(0.1)
        ((counts, _),) = closing
        assert counts == {"undelivered": 1, "cut": 0, "held": 1, "not_cut": 0, "kept_tokens": 8}
        written = old.taken
        nursery.cancel_scope.cancel()
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        reply = await fresh.ask(attempt=1)
        assert await fresh.generated() == 0
        (row,) = fresh.rows(EpisodeId("r", 1))
        assert (row.continued_at, row.continued_by) == (8, "held")
    assert json.loads(reply.content) == json.loads(await uninterrupted(tmp_path / "whole"))


async def test_an_answer_is_kept_whole_also_where_its_worker_does_not_say_how_long_it_is(tmp_path):
    said = {"id": "resp_1", "output": [], "usage": {"input_tokens": None, "output_tokens": None}}

    async def about_to_end(request):
        if request.url.path == "/v1/responses":
            await trio.sleep(1.0)
            return httpx.Response(200, json=said)
        calls = msgspec.json.decode(request.content, type=Inventory).calls
        return httpx.Response(200, content=msgspec.json.encode(Receipt(calls=tuple(map(Finished, calls)))))

    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        old.deployment.replaced["inference"] = about_to_end
        nursery.start_soon(old.ask)
        await trio.sleep(0.9)
        await old.committed()
        written = old.taken
        nursery.cancel_scope.cancel()
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        assert json.loads((await fresh.ask(attempt=1)).content) == said
        assert await fresh.generated() == 0
        (row,) = fresh.rows(EpisodeId("r", 1))
        assert (row.response_id, row.output_tokens, row.continued_by) == ("resp_1", None, "held")


async def test_an_answer_that_does_not_come_in_time_costs_none_that_does(tmp_path):
    late = "Repeat exactly: this one is late"

    async def about_to_end(request):
        if request.url.path == "/v1/responses":
            await trio.sleep(3600.0 if late in request.content.decode() else 1.0)
            return httpx.Response(200, json={"id": "resp_1", "output": []})
        calls = msgspec.json.decode(request.content, type=Inventory).calls
        return httpx.Response(200, content=msgspec.json.encode(Receipt(calls=tuple(map(Finished, calls)))))

    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        old.deployment.replaced["inference"] = about_to_end
        nursery.start_soon(old.ask)
        nursery.start_soon(old.ask, late)
        await trio.sleep(0.9)
        counts, _ = await old.committed()
        nursery.cancel_scope.cancel()
    assert (counts["held"], counts["not_cut"]) == (1, 1)


@pytest.mark.parametrize("why", ["it answers another request", "its pack is gone"])
async def test_a_held_answer_goes_to_nobody_else_and_one_that_is_lost_is_told(tmp_path, why, caplog):
    (tmp_path / "checkpoints").mkdir()
    digest = digest_of({"input": msgspec.Raw(msgspec.json.encode(WORDS))})
    asked = "another" if why == "it answers another request" else digest
    wrong = StagedCut(call_id="c", request=asked, policy="", tokens=1, response=msgspec.Raw(b'"theirs"'))
    (key,) = staged(tmp_path).stage([wrong])
    if why == "its pack is gone":
        (staged(tmp_path).folder / f"{key.partition(':')[0]}.jsonl").unlink()
    async with model(tmp_path) as fresh:
        filed = FiledCut(request_sha256=digest, key=key, tokens=1, whole=True)
        fresh.hooks("policy_model").filed.file({R: filed})
        reply = await fresh.ask()
        assert await fresh.generated() == 8
    assert json.loads(reply.content)["status"] == "completed"
    assert "is generated again" in caplog.text


async def cut_once(root, **params):
    """What a checkpoint holds of a call that was cut after four of eight tokens."""
    async with model(root) as old, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: old.ask(**params))
        await trio.sleep(1.0)
        await old.committed()
        written = old.taken
        nursery.cancel_scope.cancel()
    return written


async def test_another_request_leaves_the_cut_for_the_call_that_it_belongs_to(tmp_path):
    written = await cut_once(tmp_path)
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        await fresh.ask("Repeat exactly: x y", attempt=1)
        await fresh.ask(attempt=1, parent="c-other")
        before = await fresh.generated()
        await fresh.ask(attempt=1)
        assert await fresh.generated() - before == 4
        assert len(fresh.hooks("policy_model").filed) == 0


async def test_a_cut_that_nobody_used_goes_into_the_next_checkpoint(tmp_path):
    written = await cut_once(tmp_path)
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        await fresh.ask("Repeat exactly: x y", attempt=1)
        await fresh.committed(attempt=1)
        again = fresh.taken
        assert again[1]["kept"] == written[1]["kept"]
    async with model(tmp_path, epoch=3) as third:
        await third.take_up(again, attempt=1, becomes=2)
        await third.ask(attempt=2)
        assert await third.generated() == 4


async def test_a_call_that_goes_on_is_cut_again_further_on(tmp_path):
    written = await cut_once(tmp_path)
    async with model(tmp_path, epoch=2) as second, trio.open_nursery() as nursery:
        await second.take_up(written)
        nursery.start_soon(lambda: second.ask(attempt=1))
        await trio.sleep(0.5)
        counts, _ = await second.committed(attempt=1)
        assert counts["kept_tokens"] == 6
        again = second.taken
        nursery.cancel_scope.cancel()
    async with model(tmp_path, epoch=3) as third:
        await third.take_up(again, attempt=1, becomes=2)
        reply = await third.ask(attempt=2)
        assert (await second.generated(), await third.generated()) == (2, 2)
    assert reply.content == await uninterrupted(tmp_path / "whole")


async def test_a_call_that_goes_on_and_cannot_be_cut_falls_back_to_where_it_went_on(tmp_path):
    written = await cut_once(tmp_path)
    async with model(tmp_path, epoch=2) as second, trio.open_nursery() as nursery:
        await second.take_up(written)
        nursery.start_soon(lambda: second.ask(attempt=1))
        await trio.sleep(0.5)
        second.worker(CUTS, broken)
        counts, _ = await second.committed(attempt=1)
        assert (counts["cut"], counts["kept_tokens"]) == (1, 4)
        again = second.taken
        assert again[1]["kept"] == written[1]["kept"]
        nursery.cancel_scope.cancel()
    async with model(tmp_path, epoch=3) as third:
        await third.take_up(again, attempt=1, becomes=2)
        await third.ask(attempt=2)
        assert await third.generated() == 4


async def test_restoring_twice_files_a_cut_for_the_later_attempt_only(tmp_path):
    written = await cut_once(tmp_path)
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        await fresh.take_up(written, becomes=2)
        assert len(fresh.hooks("policy_model").filed) == 1
        await fresh.ask(attempt=2)
        await fresh.ask(attempt=2)
        assert await fresh.generated() == 4 + 8


@pytest.mark.parametrize("end", ["close", "retire", "forget"])
async def test_nothing_is_kept_of_an_episode_that_is_over(tmp_path, end):
    written = await cut_once(tmp_path)
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        fresh.operation += 1
        if end == "close":
            async with fresh.deployment.client("policy_model") as client:
                await client.post("/ng-rollout/r-a1/close")
        elif end == "retire":
            await fresh.ok("policy_model", "retire", episodes=[{"rollout_id": "r", "attempt": 1}])
        else:
            await fresh.ok("policy_model", "forget", rollout_ids=["r"])
        assert len(fresh.hooks("policy_model").filed) == 0


async def test_of_a_call_that_is_tried_again_the_latest_cut_is_kept(tmp_path):
    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        nursery.start_soon(old.ask)  # its caller has given it up, and does not say so
        await trio.sleep(1.0)
        nursery.start_soon(old.ask)
        await trio.sleep(0.5)
        counts, _ = await old.committed()
        assert (counts["cut"], counts["kept_tokens"]) == (2, 6 + 2)
        written = old.taken
        nursery.cancel_scope.cancel()
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        await fresh.ask(attempt=1)
        assert await fresh.generated() == 6


async def test_of_calls_side_by_side_the_one_that_has_most_is_kept(tmp_path):
    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        nursery.start_soon(old.ask)
        await trio.sleep(1.0)
        nursery.start_soon(lambda: old.ask(f"{WORDS} i j"))
        await trio.sleep(0.5)
        await old.committed()
        written = old.taken
        nursery.cancel_scope.cancel()
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        await fresh.ask(f"{WORDS} i j", attempt=1)
        assert await fresh.generated() == 10
        await fresh.ask(attempt=1)
        assert await fresh.generated() == 10 + 2


CONSTRAINTS = {
    "a schema": {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
    "an object": {"text": {"format": {"type": "json_object"}}},
    "response_format": {"response_format": {"type": "json_schema"}},
    "guided": {"guided_regex": "[a-z ]+"},
    "a tool": {"tool_choice": "required"},
    "this tool": {"tool_choice": {"type": "function", "name": "f"}},
    "a grammar": {"grammar": "root ::= ..."},
    "by Gym": {"metadata": {"extra_body": '{"guided_json": {"type": "object"}}'}},
}


@pytest.mark.parametrize("how", CONSTRAINTS)
async def test_a_constrained_call_is_never_cut(tmp_path, how):
    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: old.ask(**CONSTRAINTS[how]))
        await trio.sleep(1.0)
        counts, _ = await old.committed()
        assert (counts["cut"], counts["not_cut"]) == (0, 1)
        assert old.taken[1]["kept"] == []
        nursery.cancel_scope.cancel()


FREE = {
    "plain text": {"text": {"format": {"type": "text"}}},
    "any tool": {"tool_choice": "auto"},
    "no format": {"response_format": None, "text": {}},
    "a seed": {"metadata": {"extra_body": '{"seed": 7}'}},
}


@pytest.mark.parametrize("how", FREE)
async def test_a_call_that_names_no_constraint_is_cut(tmp_path, how):
    written = await cut_once(tmp_path, **FREE[how])
    assert len(written[1]["kept"]) == 1


@pytest.mark.parametrize("harm", ["a pack is gone", "a pack is damaged"])
async def test_a_cut_that_is_lost_is_generated_again_and_that_is_said_once(tmp_path, harm, caplog):
    written = await cut_once(tmp_path)
    (pack,) = staged(tmp_path).folder.iterdir()
    if harm == "a pack is gone":
        pack.unlink()
    else:
        pack.write_bytes(pack.read_bytes().replace(b"a b c d", b"a b c e"))
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        reply = await fresh.ask(attempt=1)
        assert await fresh.generated() == 8
    assert reply.content == await uninterrupted(tmp_path / "whole")
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("note: 1 call is generated again, from the start: ")


async def test_a_cut_of_other_words_is_not_continued(tmp_path):
    written = await cut_once(tmp_path)
    other = StagedCut(call_id="c", request="ab", policy="scripted-1", tokens=2, text="x y")
    (key,) = staged(tmp_path).stage([other])
    async with model(tmp_path, epoch=2) as fresh:
        await fresh.take_up(written)
        filed = fresh.hooks("policy_model").filed
        filed.file({EpisodeId("r", 1): msgspec.structs.replace(filed.of(EpisodeId("r", 1)), key=key)})
        await fresh.ask(attempt=1)
        assert await fresh.generated() == 8
        assert fresh.rows(EpisodeId("r", 1))[0].continued_at is msgspec.UNSET


async def test_nothing_is_cut_where_that_is_switched_off(tmp_path):
    async with generating(tmp_path, cuts="off") as (old, _, _):
        counts, _ = await old.committed()
        assert (counts["cut"], counts["not_cut"]) == (0, 1)
        assert old.taken[1]["kept"] == []
        await trio.sleep(10)
    assert await old.generated() == 8, "and nothing stands"
    assert not staged(tmp_path).folder.exists()


async def test_an_order_to_go_on_that_overtakes_the_freeze_has_the_last_word(tmp_path):
    held = []

    async def overtaken(request, real):
        held.append((request, real))
        await trio.sleep_forever()

    async with generating(tmp_path) as (old, replies, _):
        old.worker(CUTS, overtaken)
        await old.committed()
        await old.opened()
        await wait_all_tasks_blocked()
        ((request, real),) = held
        answer = json.loads(await (await real(request)).aread())
        assert answer["calls"][0]["outcome"] == "not_cut"
        await trio.sleep(1.0)
        assert len(replies) == 1


async def test_a_checkpoint_that_is_over_before_the_worker_was_asked_leaves_nobody_standing(tmp_path):
    async with generating(tmp_path) as (old, replies, _):
        capture = old.hooks("policy_model")
        capture.close()  # one of several workers may hear both in one go
        capture.open()
        await trio.sleep(1.1)
        assert len(replies) == 1


async def test_an_order_to_go_on_that_is_lost_is_repeated(tmp_path):
    tries = []

    async def deaf(request, real):
        tries.append(trio.current_time())
        return (
            await (broken if len(tries) < 3 else real)(request, real)
            if len(tries) < 3
            else await real(request)
        )

    async with generating(tmp_path) as (old, replies, _):
        old.worker(THAW, deaf)
        await old.committed()
        await old.opened()
        await trio.sleep(5)
        assert (len(tries), len(replies)) == (3, 1)


async def test_a_freeze_ends_by_itself_when_nobody_ends_it(tmp_path):
    async with generating(tmp_path) as (old, replies, _):
        old.worker(THAW, unknown)
        old.operation += 1
        await old.ok("policy_model", "prepare", lease_ms=4000)  # with 20 s of budget: 24 s
        await trio.sleep(24.9)
        assert replies == []
        await trio.sleep(0.2)
        assert len(replies) == 1


async def test_a_call_on_its_way_to_the_worker_stands_from_its_first_token_on(tmp_path):
    async with model(tmp_path) as old, trio.open_nursery() as nursery:
        stop = old.deployment.stop("inference", "/v1/responses")
        nursery.start_soon(old.ask)
        await stop.reached.wait()
        counts, _ = await old.committed()
        assert (counts["cut"], counts["not_cut"]) == (0, 1)
        stop.go.set()
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert await old.generated() == 0, "nothing that would be generated twice"
