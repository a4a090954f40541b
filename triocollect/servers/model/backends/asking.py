"""A request of the Responses API as one of chat completions. Pure.

What chat completions have no words for is an error that names it, never left out in silence; what only asks a
server to keep or to report something, or lets it shorten what it reads, is left out. Fields that neither
interface knows (`stop`, `seed`, `top_k`, `guided_json`) go on as they are, those of `metadata.extra_body` and
`metadata.chat_template_kwargs` (JSON, or a string that holds it) above all others, as in Gym 0.7.0.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from triocollect.errors import PeerError
from triocollect.protocol.values import NOT_JSON, Json, JsonObject

# About keeping and reporting, or said in other words below.
_LEFT_OUT: Final = frozenset(
    {"include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "n", "reasoning"}
    | {"parallel_tool_calls", "prompt_cache_key", "safety_identifier", "service_tier", "store", "stream"}
    | {"stream_options", "text", "tool_choice", "tools", "top_logprobs", "truncation", "user"}
)
_WITHOUT_WORDS: Final = ("background", "conversation", "previous_response_id", "prompt")
_LOGPROBS: Final = "message.output_text.logprobs"
_SYSTEM: Final = frozenset({"system", "developer"})

ChatRequest = dict[str, Json]


def unspeakable(what: str) -> PeerError:
    """The error of a request that a backend without `/responses` cannot be asked."""
    return PeerError(f"the backend speaks chat completions, which have no {what}", passing=False)


def chat_request(asked: Mapping[str, Raw]) -> ChatRequest:
    """The same in chat completions, not streamed. Raises PeerError for what they cannot say."""
    try:
        params: JsonObject = {name: msgspec.json.decode(value) for name, value in asked.items()}
    except NOT_JSON as error:
        raise PeerError(f"the request is not JSON: {error}", passing=False) from error
    for name in _WITHOUT_WORDS:
        if params.get(name):
            raise unspeakable(f"`{name}`")
    request: ChatRequest = {"messages": list(_messages(params.get("instructions"), params.get("input")))}
    request |= {
        name: one
        for name, one in params.items()
        if one is not None and name not in _LEFT_OUT | {*_WITHOUT_WORDS}
    }
    request |= _limits(params) | _tools(params) | _form(params)
    return request | _extra(params.get("metadata"))


def _limits(params: JsonObject) -> JsonObject:
    said: JsonObject = {}
    if params.get("max_output_tokens") is not None:
        said["max_tokens"] = params["max_output_tokens"]
    if (effort := _field(params.get("reasoning"), "effort")) is not None:
        said["reasoning_effort"] = effort
    if (verbosity := _field(params.get("text"), "verbosity")) is not None:
        said["verbosity"] = verbosity
    include, top = params.get("include"), params.get("top_logprobs")
    if top is not None or (isinstance(include, list) and _LOGPROBS in include):
        said["logprobs"] = True
        said["top_logprobs"] = top or 0
    return said


def _tools(params: JsonObject) -> JsonObject:
    tools = params.get("tools")
    if not isinstance(tools, list) or not tools:
        return {}
    said: JsonObject = {"tools": [_tool(tool) for tool in tools]}
    if (choice := params.get("tool_choice")) is not None:
        said["tool_choice"] = _choice(choice)
    if params.get("parallel_tool_calls") is not None:
        said["parallel_tool_calls"] = params["parallel_tool_calls"]
    return said


def _tool(tool: Json) -> JsonObject:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        kind = tool.get("type") if isinstance(tool, dict) else tool
        raise unspeakable(f"tool of the type {kind!r}")
    named = ("name", "description", "parameters", "strict")
    return {
        "type": "function",
        "function": {name: tool[name] for name in named if tool.get(name) is not None},
    }


def _choice(choice: Json) -> Json:
    if isinstance(choice, str):
        return choice
    if _field(choice, "type") != "function":
        raise unspeakable(f"tool choice {msgspec.json.encode(choice).decode()}")
    return {"type": "function", "function": {"name": _field(choice, "name")}}


def _form(params: JsonObject) -> JsonObject:
    """What `text.format` asks of the text."""
    form = _field(params.get("text"), "format")
    kind = _field(form, "type")
    if not isinstance(form, dict) or kind in {None, "text"}:
        return {}
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if kind != "json_schema":
        raise unspeakable(f"text format {kind!r}")
    schema: JsonObject = {name: one for name, one in form.items() if name != "type"}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _field(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _extra(metadata: Json) -> JsonObject:
    if not isinstance(metadata, dict):
        return {}
    kwargs = _object("chat_template_kwargs", metadata)
    said: JsonObject = {} if not kwargs else {"chat_template_kwargs": kwargs}
    return said | _object("extra_body", metadata)


def _object(name: str, metadata: JsonObject) -> JsonObject:
    given = metadata.get(name)
    try:
        value = msgspec.json.decode(given) if isinstance(given, str) else given
    except NOT_JSON as error:
        raise PeerError(f"metadata.{name} is not JSON: {error}", passing=False) from error
    if value is not None and not isinstance(value, dict):
        raise PeerError(f"metadata.{name} is no JSON object", passing=False)
    return value or {}


def _messages(instructions: Json, given: Json) -> Iterable[JsonObject]:
    """One message a turn. Templates know one system message, the first, so that those in front are joined."""
    items: list[Json] = list(given) if isinstance(given, list) else [{"role": "user", "content": given or ""}]
    if isinstance(instructions, str) and instructions:
        items.insert(0, {"role": "system", "content": instructions})
    messages: list[JsonObject] = []
    for item in items:
        if not isinstance(item, dict):
            raise unspeakable(f"input item {msgspec.json.encode(item).decode()}")
        said = _message(item)
        last = messages[-1] if messages else None
        if last is None or not _joined(last, said, first=len(messages) == 1):
            messages.append(said)
    return messages


def _message(item: JsonObject) -> JsonObject:
    match item.get("type") or "message":
        case "message":
            role = item.get("role")
            if not isinstance(role, str):
                raise unspeakable("message without a role")
            return {"role": "system" if role in _SYSTEM else role, "content": _content(item.get("content"))}
        case "function_call":
            function: JsonObject = {"name": item.get("name"), "arguments": item.get("arguments") or "{}"}
            call: JsonObject = {"id": item.get("call_id"), "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            output = _content(item.get("output"))
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output}
        case "reasoning":
            text = _content(item.get("content")) or _content(item.get("summary"))
            return {"role": "assistant", "content": None, "reasoning_content": text}
        case kind:
            raise unspeakable(f"input item of the type {kind!r}")


def _content(content: Json) -> Json:
    """A string where all of it is text, which every chat template takes; else parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [_part(part) for part in content]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(map(str, texts)) if len(texts) == len(parts) else [*parts]


def _part(part: Json) -> JsonObject:
    kind, text, url = _field(part, "type"), _field(part, "text"), _field(part, "image_url")
    if kind == "refusal":
        text = _field(part, "refusal")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    if kind != "input_image" or not isinstance(url, str):
        raise unspeakable(f"content of the type {kind!r}" if kind else "content without a type")
    detail = _field(part, "detail")
    return {
        "type": "image_url",
        "image_url": {"url": url} if detail is None else {"url": url, "detail": detail},
    }


def _joined(last: JsonObject, said: JsonObject, *, first: bool) -> bool:
    """Whether it was added to the message before: items of one turn of the model, or of the system."""
    if last["role"] != said["role"]:
        return False
    if said["role"] == "system" and first and isinstance(last["content"], str):
        last["content"] = f"{last['content']}\n\n{said['content']}"
        return True
    if said["role"] != "assistant":
        return False
    if said.get("reasoning_content") and (last["content"] or last.get("tool_calls")):
        return False  # the next turn begins with it
    if said["content"] and (last["content"] or last.get("tool_calls")):
        return False
    calls, more = last.get("tool_calls"), said.get("tool_calls")
    last.update({name: one for name, one in said.items() if one})
    if isinstance(calls, list) and isinstance(more, list):
        last["tool_calls"] = [*calls, *more]
    return True
