"""Backends that stream the token model's answers as vLLM, SGLang and llama.cpp's server do."""

import json
from typing import NamedTuple

import httpx
import trio

from tests.servers.backends.token_model import BYTES, END, generate, prompt_of, spelled


class Step(NamedTuple):
    """What one more token adds to a stream: how many there are, its id, the text that is shown, the end."""

    tokens: int
    ids: list[int]
    text: str
    finish: str | None


def text_of(ids):
    """Up to the last token after which no character is half there."""
    for n in range(len(ids), -1, -1):
        text = spelled([one for one in ids[:n] if one != END]).decode(errors="replace")
        if not text.endswith("\ufffd"):
            return text
    return ""


class Scripted(httpx.AsyncBaseTransport):
    """A chat and a list of models. `asked`: (path, body) of each request.

    `lacks`: paths that it does not have. `refuses`: a field that it does not take. `hold_at`: after so many
    tokens of an answer nothing more is sent, `hold_last`: nothing after the answer is over. `broken_after`:
    after so many tokens it sends this, and ends.
    """

    owner = "nobody"
    serves = "tiny"
    continues = False  # knows continue_final_message

    def __init__(self, *, lacks=(), refuses=None):
        self.lacks, self.refuses = lacks, refuses
        self.hold_at, self.hold_last, self.broken_after = None, False, None
        self.pace_s = 0.0  # for each token
        self.asked = []

    def paths(self):
        return {"/v1/models": self.models, "/v1/chat/completions": self.chat}

    async def handle_async_request(self, request):
        await trio.lowlevel.checkpoint()
        body = json.loads(request.content or b"{}")
        self.asked.append((request.url.path, body))
        answer = self.paths().get(request.url.path)
        if answer is None or request.url.path in self.lacks:
            return httpx.Response(404, json={"error": {"message": "Not Found", "code": 404}})
        return self.bad(f"{self.refuses} is not taken") if self.refuses in body else answer(body)

    def bad(self, why):
        return httpx.Response(400, json={"error": {"message": why, "type": "BadRequestError", "code": 400}})

    def models(self, _body):
        return httpx.Response(
            200, json={"object": "list", "data": [{"id": self.serves, "owned_by": self.owner}]}
        )

    def prompt(self, body):
        return prompt_of(body["messages"], open_last=self.continues and body.get("continue_final_message"))

    def chat(self, body):
        if self.continues and body.get("continue_final_message") and body.get("add_generation_prompt", True):
            return self.bad("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
        prompt = self.prompt(body)
        return self.answer(body, prompt, self.chat_chunk, self.role_chunk(body, prompt))

    def answer(self, body, prompt, chunk, first=None):
        ids = generate(prompt, self.limit(body))
        if body.get("stream"):
            content = self.stream(body, prompt, ids, chunk, first)
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=content)
        message = {"role": "assistant", "content": text_of(ids)}
        choice = {"index": 0, "message": message, "finish_reason": self.finish(ids)}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        return httpx.Response(200, json={"object": "chat.completion", "choices": [choice], "usage": usage})

    def limit(self, body):
        return body.get("max_tokens")

    def finish(self, ids):
        return "stop" if ids[-1:] == [END] else "length"

    def shown(self, text, stops, sent):
        """How much of the text: a token that may complete a stop string is held back."""
        may = any(text.endswith(stop[:n]) for stop in stops for n in range(1, len(stop)))
        return sent if may else len(text)

    def steps(self, body, ids):
        stop, sent = body.get("stop") or [], 0
        stops = [stop] if isinstance(stop, str) else stop
        for n in range(1, len(ids) + 1):
            text = text_of(ids[:n])
            found = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
            finish = "stop" if found else self.finish(ids) if n == len(ids) else None
            show = min(found)[1] if found else len(text) if finish else self.shown(text, stops, sent)
            yield Step(n, ids[n - 1 : n], text[sent:show], finish)
            sent = max(sent, show)
            if finish:
                return

    async def stream(self, body, prompt, ids, chunk, first):
        yield self.event(first)
        made = 0
        for step in self.steps(body, ids):
            await trio.sleep(self.pace_s)
            if self.hold_at is not None and step.tokens > self.hold_at:
                await trio.sleep_forever()
            if self.broken_after is not None and step.tokens > self.broken_after[0]:
                yield self.broken_after[1]
                return
            yield b": keep-alive\r\n\r\n" + self.event(chunk(body, prompt, step))
            made = step.tokens
        if self.hold_last:
            await trio.sleep_forever()
        yield self.last(body, prompt, made)

    def event(self, data):
        return b"" if data is None else b"data: " + json.dumps(data).encode() + b"\n\n"

    def last(self, body, prompt, made):
        told = (body.get("stream_options") or {}).get("include_usage")
        usage = self.head([], **self.counted(prompt, made)) if told else None
        return self.event(usage) + b"data: [DONE]\n\n"

    def counted(self, prompt, made):
        total = len(prompt) + made
        return {"usage": {"prompt_tokens": len(prompt), "completion_tokens": made, "total_tokens": total}}

    def head(self, choices, kind="chat.completion.chunk", **more):
        return {"id": "1", "object": kind, "created": 17, "model": self.serves, "choices": choices, **more}

    def role_chunk(self, _body, _prompt):
        return self.head([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    def chat_chunk(self, _body, _prompt, step):
        said = {"index": 0, "delta": {"content": step.text}, "logprobs": None, "finish_reason": step.finish}
        return self.head([said])


class SGLang(Scripted):
    """Counts the tokens in each chunk, where it is asked to."""

    owner = "sglang"
    continues = True

    def usage(self, body, prompt, made):
        told = (body.get("stream_options") or {}).get("continuous_usage_stats")
        return self.counted(prompt, made) if told else {}

    def role_chunk(self, body, prompt):
        return super().role_chunk(body, prompt) | self.usage(body, prompt, 0)

    def chat_chunk(self, body, prompt, step):
        return super().chat_chunk(body, prompt, step) | self.usage(body, prompt, step.tokens)


class VLLM(SGLang):
    """Tells token ids, and takes them."""

    owner = "vllm"

    def paths(self):
        return super().paths() | {"/v1/completions": self.completions, "/detokenize": self.detokenize}

    def detokenize(self, body):
        return httpx.Response(200, json={"prompt": spelled(body["tokens"]).decode(errors="replace")})

    def limit(self, body):
        return body.get("max_tokens", 16 if "prompt" in body else None)

    def completions(self, body):
        return self.answer(body, body["prompt"], self.text_chunk)

    def shown(self, text, stops, sent):
        """As many characters are held back as a stop string may reach back."""
        return max(sent, len(text) - max((len(stop) - 1 for stop in stops), default=0))

    def ids(self, body, step):
        return {"token_ids": step.ids} if body.get("return_token_ids") else {}

    def role_chunk(self, body, prompt):
        ids = {"prompt_token_ids": prompt} if body.get("return_token_ids") else {}
        return super().role_chunk(body, prompt) | ids

    def chat_chunk(self, body, prompt, step):
        chunk = super().chat_chunk(body, prompt, step)
        chunk["choices"][0] |= self.ids(body, step)
        return chunk

    def text_chunk(self, body, prompt, step):
        said = {"index": 0, "text": step.text, "logprobs": None, "finish_reason": step.finish}
        choices = [said | self.ids(body, step)]
        return self.head(choices, "text_completion", **self.usage(body, prompt, step.tokens))


class LlamaCpp(Scripted):
    """Continues a last message of the assistant by itself; leaves tokens out that end inside a character."""

    owner = "llamacpp"

    def paths(self):
        mine = {"/apply-template": self.template, "/tokenize": self.tokenize, "/completion": self.completion}
        return super().paths() | mine

    def template(self, body):
        return httpx.Response(200, json={"prompt": json.dumps(body["messages"])})

    def tokenize(self, body):
        return httpx.Response(200, json={"tokens": prompt_of(json.loads(body["content"]))})

    def limit(self, body):
        native = body.get("n_predict", -1)
        return super().limit(body) if "messages" in body else None if native < 0 else native

    def completion(self, body):
        return self.answer(body, body["prompt"], self.native_chunk)

    def prompt(self, body):
        return prompt_of(body["messages"], open_last=body["messages"][-1]["role"] == "assistant")

    def logprobs(self, body, ids):
        if not body.get("logprobs"):
            return {}
        told = [{"id": one, "token": "?", "bytes": [*BYTES[one]], "logprob": -float(one)} for one in ids]
        return {"logprobs": {"content": told}}

    def chat_chunk(self, body, _prompt, step):
        if not step.text and not step.finish:
            return None
        delta = {"content": step.text} if step.text else {}
        said = {"index": 0, "delta": delta, "finish_reason": step.finish}
        return self.head([said | self.logprobs(body, step.ids)])

    def native_chunk(self, _body, prompt, step):
        if not step.text and not step.finish:
            return None
        ended = {} if step.finish is None else {"stop_type": {"stop": "eos", "length": "limit"}[step.finish]}
        said = {"index": 0, "content": step.text, "tokens": step.ids, "stop": step.finish is not None}
        return said | {"tokens_predicted": step.tokens, "tokens_evaluated": len(prompt)} | ended

    def last(self, body, prompt, made):
        return b"" if "prompt" in body else super().last(body, prompt, made)


KINDS = {kind.__name__: kind for kind in (VLLM, SGLang, LlamaCpp)}
