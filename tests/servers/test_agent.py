"""An agent session: what it does next, and what of it survives."""

import json

import httpx
import msgspec
import pytest
from msgspec import Raw

from tests.servers.wired import COUNTER_ROW, Deployment
from triocollect.protocol.ids import EpisodeId
from triocollect.servers.agent.session import (
    CallModel,
    CallTool,
    Finished,
    Session,
    ToolCall,
    activated,
    model_answered,
    next_step,
    tool_answered,
    tool_fault,
)

EPISODE = {"x-rollout-id": "3-1", "x-rollout-attempt": "2"}
ACTIVATE = "/ng-rollout/3-1-a2/v1/responses"


def a_session(**params):
    fields = {name: Raw(json.dumps(value).encode()) for name, value in params.items()}
    return activated(Session(episode=EpisodeId("3-1"), agent="counter_agent"), fields)


def a_response(*output, **fields):
    return json.dumps({"id": "r", "output": output, **fields}).encode()


def a_call(name="get_value", arguments="{}", call_id="c"):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}


def the_input(step):
    assert isinstance(step, CallModel)
    return json.loads(step.body)["input"]


def test_a_session_begins_with_a_policy_call_that_has_the_rows_parameters():
    step = next_step(a_session(input="hi", temperature=0.5), 8)
    assert json.loads(step.body) == {
        "input": [{"role": "user", "content": "hi", "type": "message"}],
        "temperature": 0.5,
    }


def test_tool_calls_are_steps_of_their_own_and_their_outputs_go_back_to_the_model():
    session = model_answered(a_session(input=[]), a_response(a_call(call_id="1"), a_call(call_id="2")))
    for call_id in "12":
        assert next_step(session, 8) == CallTool(ToolCall(call_id, "get_value", "{}"))
        session = tool_answered(session, f"output {call_id}")
    assert [item["call_id"] for item in the_input(next_step(session, 8))] == ["1", "2", "1", "2"]


def test_a_message_ends_the_session_and_usage_adds_up():
    usage = {"total_tokens": 5, "details": {"cached": 1}}
    session = model_answered(a_session(input=[]), a_response(a_call(), usage=usage))
    session = model_answered(tool_answered(session, "4"), a_response(MESSAGE, usage=usage))
    last = next_step(session, 8)
    assert isinstance(last, Finished)
    whole = json.loads(last.response)
    assert [item["type"] for item in whole["output"]] == ["function_call", "function_call_output", "message"]
    assert whole["usage"] == {"total_tokens": 10, "details": {"cached": 2}}


@pytest.mark.parametrize("usage", [{"output_tokens": -1}, {"details": {"cached_tokens": -1}}, {"x": 10**400}])
def test_usage_that_cannot_be_added_up_is_no_response(usage):
    session = model_answered(a_session(input=[]), a_response(a_call(), usage={"x": 0.5, "unknown": -1}))
    with pytest.raises(msgspec.ValidationError, match="of its usage is not from"):
        model_answered(tool_answered(session, "4"), a_response(MESSAGE, usage=usage))


def test_a_session_stops_after_its_last_policy_call_but_finishes_the_tools_it_called():
    session = model_answered(a_session(input=[]), a_response(a_call()))
    assert isinstance(next_step(session, 1), CallTool)
    assert isinstance(next_step(tool_answered(session, "4"), 1), Finished)


def test_a_response_that_was_cut_off_ends_the_session_without_its_calls():
    cut = a_response(a_call(), incomplete_details={"reason": "max_output_tokens"})
    assert isinstance(next_step(model_answered(a_session(input=[]), cut), 8), Finished)


def test_a_model_can_only_call_tools_of_its_row_and_never_the_verifier():
    session = a_session(input=[], tools=[{"name": "get_value"}, {"name": "verify"}])
    assert tool_fault(session, ToolCall("c", "get_value", "{}")) is None
    assert tool_fault(session, ToolCall("c", "get_value", "")) is None
    for name in ("verify", "seed_session", "../verify", "unknown"):
        assert "no tool" in tool_fault(session, ToolCall("c", name, "{}"))
    assert "not a JSON object" in tool_fault(session, ToolCall("c", "get_value", "[1"))


def test_a_session_survives_being_written_down():
    session = model_answered(a_session(input="hi", tools=[]), a_response(a_call(), usage={"total_tokens": 5}))
    written = msgspec.json.encode(session)
    again = msgspec.json.decode(written, type=Session)
    assert msgspec.json.encode(again) == written
    assert next_step(again, 8) == next_step(session, 8)


async def test_an_activation_that_broke_goes_on_from_its_last_boundary():
    deployment = Deployment()
    calls = []

    async def fails_once(request):
        calls.append(request)
        if len(calls) == 3:
            return httpx.Response(503)
        return await httpx.ASGITransport(deployment.apps["policy_model"]).handle_async_request(request)

    deployment.replaced["policy_model"] = fails_once
    seed = {**COUNTER_ROW, "_ng_rollout_id": "3-1", "_ng_attempt_index": 2}
    async with deployment.asking("counter") as counter, deployment.asking("agent") as agent:
        await counter.post("/seed_session", json=seed)
        await agent.post("/v1/agent_sessions", json={"agent": "counter_agent"}, headers=EPISODE)
        params = COUNTER_ROW["responses_create_params"]
        assert (await agent.post(ACTIVATE, json=params)).status_code == 500
        whole = (await agent.post(ACTIVATE, json=params)).json()
        asked = len(calls)
        assert (await agent.post(ACTIVATE, json=params)).json() == whole, "a finished session says it again"
    assert asked == len(calls) == 5
    assert [path for name, path in deployment.heard if name == "counter"] == [
        "/seed_session",
        "/increment",
        "/increment",
        "/get_value",
    ]


async def test_a_session_that_is_not_open_cannot_be_activated():
    async with Deployment().asking("agent") as agent:
        assert (await agent.post(ACTIVATE, json={})).status_code == 404
        opened = await agent.post("/v1/agent_sessions", json={"agent": "counter_agent"}, headers=EPISODE)
        assert opened.json() == {"session_id": "3-1-a2"}
        closing = [await agent.post("/v1/agent_sessions/close", headers=EPISODE) for _ in range(2)]
        assert [reply.json() for reply in closing] == [{"closed": True}, {"closed": False}]
        assert (await agent.post(ACTIVATE, json={})).status_code == 404


async def test_a_session_without_identity_or_of_an_unknown_agent_is_refused():
    async with Deployment().asking("agent") as agent:
        nobody = await agent.post("/v1/agent_sessions", json={"agent": "counter_agent"})
        assert nobody.json()["error"]["code"] == "rollout_id_required"
        unknown = await agent.post("/v1/agent_sessions", json={"agent": "x"}, headers=EPISODE)
        assert "counter_agent" in unknown.json()["error"]["detail"]
