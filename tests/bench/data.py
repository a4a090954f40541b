"""Rows and replies of a given size, with what real ones are made of."""

import json
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Final, Literal

Shape = Literal["text", "tokens"]

ECHO_WIDTH: Final = 8  # digits of a task index, in the rows and in the replies
_ECHO: Final = "#" * ECHO_WIDTH
_PROSE: Final = (
    "The agent looked up the weather, then wrote:\n\t"
    '"Über 30 °C in São Paulo", and called the tool again with {\\"city\\": 7}. '
)


def write_rows(path: Path, rows: int, row_bytes: int) -> None:
    """A flat JSONL input of so many rows of about so many bytes, no two alike. Streams."""
    before, after = _cut(_sized(_row, row_bytes))
    with path.open("wb", buffering=1 << 20) as out:
        out.writelines(b"%b%0*d%b\n" % (before, ECHO_WIDTH, row, after) for row in range(rows))


def reply_around_echo(shape: Shape, reply_bytes: int) -> tuple[bytes, bytes]:
    """A verify response of about so many bytes, in two: between them stands the row's task index."""
    reply = {"text": _text_reply, "tokens": _token_reply}[shape]
    return _cut(_sized(reply, reply_bytes))


def _sized(make: Callable[[int], object], size: int) -> bytes:
    """What `make` gives for the amount that comes to about `size` bytes of JSON, which grows with it."""
    fixed, amount = len(_encoded(make(0))), 1000
    for _ in range(3):  # near enough, and at once where it grows evenly
        amount = max(1, amount * (size - fixed) // (len(_encoded(make(amount))) - fixed))
    return _encoded(make(amount))


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _cut(body: bytes) -> tuple[bytes, bytes]:
    before, after = body.split(_ECHO.encode())
    return before, after


def _prose(characters: int) -> str:
    return "".join(islice(cycle(_PROSE), characters))


def _row(characters: int) -> object:
    return {
        "id": f"row-{_ECHO}",
        "responses_create_params": {
            "input": [
                {"role": "developer", "content": "You may call tools. Answer in one sentence."},
                {"role": "user", "content": _prose(characters)},
            ],
            "temperature": 0.7,
            "max_output_tokens": 1024,
            "tools": [{"type": "function", "name": "get_weather", "strict": True, "parameters": {}}],
        },
        "expected_answer": {"city": "São Paulo", "celsius": 30},
        "agent_ref": {"name": "bench_agent"},
    }


def _text_reply(characters: int) -> object:
    content = [{"type": "output_text", "text": _prose(characters), "annotations": []}]
    return _reply({"type": "message", "role": "assistant", "status": "completed", "content": content})


def _token_reply(tokens: int) -> object:
    return _reply(
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "ok", "annotations": []}],
            "generation_token_ids": [(token * 7919) % 151_000 for token in range(tokens)],
            "generation_log_probs": [-1.0 / (3 + token % 977) for token in range(tokens)],
        }
    )


def _reply(message: object) -> object:
    return {
        "seen_task": _ECHO,
        "response": {
            "id": "resp_0",
            "object": "response",
            "created_at": 1_750_000_000.0,
            "model": "bench",
            "output": [message],
            "usage": {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30},
            "incomplete_details": None,
        },
        "reward": 1.0,
        "mask_sample": False,
        "failure_kind": None,
        "failure_reason": None,
    }
