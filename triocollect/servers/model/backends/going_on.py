"""How the rest of an answer is asked for: what a way needs beforehand, and the reading of the rest."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from triocollect.servers.model.backends.asking import ChatRequest
from triocollect.servers.model.backends.continuing import (
    HALF,
    Order,
    after_text,
    after_tokens,
    after_tokens_natively,
    may_be_stopping,
    shortened,
    stop_strings,
    stopped_at,
    tokens_left,
)
from triocollect.servers.model.backends.generated import Generated, Mark, Prefix
from triocollect.servers.model.backends.line import Line
from triocollect.servers.model.backends.probe import prompt_tokens, text_of
from triocollect.servers.model.backends.streams import chat
from triocollect.servers.model.backends.ways import Means, extras_of

MOST_BACK: Final = 8  # tokens: a character is spread over four at most


async def order_for(line: Line, means: Means, request: ChatRequest, prefix: Prefix) -> Order | None:
    """What is to be asked; None where this prefix turns out not to fit. Raises PeerError."""
    request = extras_of(line.ways, request) | request
    if means != "token_ids":
        flagged = means == "continue_final_message"
        spelled = await _spelled(line, request, prefix, _may_end_a_message)
        return after_text(request, spelled or prefix, path=line.chat, flagged=flagged)
    whole = await _whole(line, request, prefix)
    prompt = prefix.prompt_ids or await prompt_tokens(line, request)
    if whole is None or not prompt:
        return None
    if line.seen.takes_ids == "completion":
        return after_tokens_natively(request, whole, prompt)
    return after_tokens(request, whole, prompt, path=f"{line.seen.api}/completions")


async def _whole(line: Line, request: ChatRequest, prefix: Prefix) -> Prefix | None:
    """The prefix with all the text of its tokens; None where nobody can tell what that is."""
    if line.seen.ids == "logprobs":  # each came with its bytes
        return prefix
    if line.seen.detokenizes:
        return await _spelled(line, request, prefix, bool)
    return None if stop_strings(request) or not prefix.marks else shortened(prefix, prefix.marks[-1])


async def _spelled(
    line: Line, request: ChatRequest, prefix: Prefix, may_end: Callable[[str], bool]
) -> Prefix | None:
    """The prefix with all the text of its tokens, some of which may have been held back when it was cut.

    It goes back to a token that ends no character half and at which it `may_end`. None where the tokens
    cannot be spelled out, or do not belong to the text.
    """
    if not prefix.ids or not line.seen.detokenizes:
        return None
    model = request.get("model")
    for tokens in range(len(prefix.ids), max(0, len(prefix.ids) - MOST_BACK), -1):
        text = await text_of(line, prefix.ids[:tokens], str(model) if model else None)
        if text is None:
            return None
        if not text.endswith(HALF) and may_end(text):
            return _with_text(prefix, tokens, text)
    return None


def _may_end_a_message(text: str) -> bool:
    return bool(text) and text == text.rstrip()


def _with_text(prefix: Prefix, tokens: int, spelled: str) -> Prefix | None:
    """The first tokens of it, which spell this: perhaps some reasoning, then the text and more.

    Some tokenizers leave out white space at the beginning.
    """
    said, begins = prefix.text.lstrip(), 0
    if prefix.reasoning:
        thought = prefix.reasoning.strip()
        begins = spelled.find(said, max(0, spelled.find(thought)) + len(thought))
    rest_of_it = spelled[max(0, begins) :].lstrip()
    if begins < 0 or not (rest_of_it.startswith(said) or said.startswith(rest_of_it)):
        return None
    text = prefix.text[: len(prefix.text) - len(said)] + rest_of_it
    return replace(shortened(prefix, Mark(tokens, len(text))), text=text, marks=(Mark(tokens, len(text)),))


async def rest(line: Line, request: ChatRequest, order: Order, answer: Generated) -> None:
    """Read the rest into `answer`, which begins with the prefix of the order. Raises PeerError.

    Nothing is asked where nothing is left to come. Where the prefix may end inside a stop string, the backend
    could not see it: then it is told none, and they are looked for here.
    """
    longest = max(map(len, stop_strings(request)), default=0)
    looked = max(0, answer.chars - longest)

    def over() -> bool:
        nonlocal looked
        before, looked = looked, max(0, answer.chars - longest)
        ends = stopped_at(request, answer.text_after(before))
        if ends is not None:
            answer.end_at(before + ends)
        return ends is not None

    if over():
        return
    if tokens_left(request, order.prefix) == 0:
        answer.finish = "length"
    elif may_be_stopping(request, answer.text):
        free = {name: one for name, one in order.body.items() if name != "stop"}
        await chat(line, order.path, free, answer, over)
    else:
        await chat(line, order.path, order.body, answer)
