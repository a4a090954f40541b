"""By which ways a backend is asked and goes on after a prefix: one table, one decision. Pure.

    way                      what has to be there                         what goes back
    token_ids                ids in the stream of chat completions, and   prompt and prefix as ids, each as it
                             a `/completions` (vLLM) or `/completion`     was; not with tools, whose calls
                             (llama.cpp) that takes ids                   only the chat reads
    continue_final_message   `/chat/completions` that knows this field    the text, as the last message
    text_prefix              `/chat/completions` that goes on after a     the text, as the last message
                             last message of the assistant

Where a way is not shown by the probe it does not exist; a call that no way fits is generated again.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from triocollect.config.settings import CutsMode
from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.model.backends.asking import ChatRequest
from triocollect.servers.model.backends.generated import Prefix

Means: TypeAlias = Literal["token_ids", "continue_final_message", "text_prefix"]

# Fields under which an answer is more than one text after a prefix, unless they say this.
_HARMLESS: Final[JsonObject] = {
    "best_of": 1,
    "frequency_penalty": 0,
    "n": 1,
    "presence_penalty": 0,
    "use_beam_search": False,
}


class Findings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a probe has seen. `api`: what stands between the URL's root and the paths of OpenAI's interface.

    `model`: what it serves first, of all its `models`. `ids`: by which field its chat tells token ids.
    `takes_ids`: which path goes on after them. `usage`: it counts tokens while it streams.
    """

    api: str = ""
    owner: str | None = None
    model: str | None = None
    models: tuple[str, ...] = ()
    responses: bool = False
    chat: bool = False
    usage: bool = False
    ids: Literal["token_ids", "logprobs"] | None = None
    takes_ids: Literal["completions", "completion"] | None = None
    detokenizes: bool = False
    continues: bool = False  # knows continue_final_message
    prefills: bool = False  # goes on after a last message of the assistant
    exact: tuple[Means, ...] = ()  # ways by which a greedy answer was the same


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """How calls are asked, and by which means they may go on, the best first."""

    ask: Literal["responses", "chat"]
    extras: JsonObject
    means: tuple[Means, ...]


def decide(seen: Findings, cuts: CutsMode) -> Ways:
    """The decision. Without a chat there is nothing but `/responses`.

    Where both are there, the chat is asked where it tells token ids and they can go back: a cut of a
    `/responses` stream has but its text.
    """
    means = () if cuts == "off" or not seen.chat else tuple(_means(seen, cuts))
    extras: JsonObject = {"stream_options": {"include_usage": True}}
    if seen.usage:
        extras["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if "token_ids" not in means:
        ask: Literal["responses", "chat"] = "chat" if seen.chat and not seen.responses else "responses"
        return Ways(ask=ask, extras=extras, means=means)
    extras |= {"return_token_ids": True} if seen.ids == "token_ids" else {"logprobs": True, "top_logprobs": 1}
    return Ways(ask="chat", extras=extras, means=means)


def _means(seen: Findings, cuts: CutsMode) -> Iterator[Means]:
    shown: Mapping[Means, bool] = {
        "token_ids": seen.ids is not None and seen.takes_ids is not None,
        "continue_final_message": seen.continues,
        "text_prefix": seen.prefills,
    }
    for name, there in shown.items():
        if there and (cuts != "exact" or name in seen.exact):
            yield name


def uncuttable(request: ChatRequest) -> str | None:
    """Why a call that asks this can go on from no prefix; None when it can."""
    for name, harmless in _HARMLESS.items():
        if request.get(name) is not None and request[name] != harmless:
            return f"it asks for `{name}`"
    messages = request["messages"]
    if isinstance(messages, list) and messages and _role(messages[-1]) == "assistant":
        return "it goes on after a message of the assistant already"
    return None


def fitting(
    means: Iterable[Means], request: ChatRequest, prefix: Prefix, cuts: CutsMode
) -> tuple[Means, ...]:
    """Those by which this call may go on after this prefix."""
    if uncuttable(request) is not None or (cuts == "exact" and not _greedy(request)):
        return ()
    return tuple(one for one in means if _fits(one, request, prefix))


def extras_of(ways: Ways, request: ChatRequest) -> JsonObject:
    """What a call asks for besides. No log-probabilities with tools: llama.cpp refuses them."""
    refused = {"logprobs", "top_logprobs"} if request.get("tools") else frozenset[str]()
    return {name: one for name, one in ways.extras.items() if name not in refused}


def _fits(means: Means, request: ChatRequest, prefix: Prefix) -> bool:
    if means == "token_ids":
        raw = not request.get("tools") and not request.get("logprobs") and _is_text(request["messages"])
        return raw and bool(prefix.ids)
    return not prefix.reasoning


def _is_text(messages: Json) -> bool:
    """Whether no message has pictures, which tokens alone would not bring back."""
    contents = (
        [one.get("content") for one in messages if isinstance(one, dict)]
        if isinstance(messages, list)
        else []
    )
    return all(content is None or isinstance(content, str) for content in contents)


def _greedy(request: ChatRequest) -> bool:
    return request.get("temperature") == 0 or request.get("top_k") == 1


def _role(message: Json) -> Json:
    return message.get("role") if isinstance(message, dict) else None


def in_words(seen: Findings, ways: Ways, cuts: CutsMode) -> str:
    """What was found and decided, on one line."""
    who = f"serves {seen.model or 'models without a name'}" + (f" ({seen.owner})" if seen.owner else "")
    asked = f"{seen.api}/{'responses' if ways.ask == 'responses' else 'chat/completions'}"
    if ways.means:
        going_on = f"a cut call goes on by {', else '.join(ways.means)}"
    else:
        going_on = "a cut call is generated again" + {"off": ", as cuts are off"}.get(cuts, "")
    return f"{who}; calls go to {asked}; {going_on}"
