"""A language model of thirty tokens: what comes next follows from the bytes so far, and from nothing else.

Some tokens end inside a character. The same conversation always gets the same answer, however it is split.
"""

import hashlib

END, USER, ASSISTANT, CLOSE = 0, 1, 2, 3
SPECIAL = {END: b"<eos>", USER: b"<user>", ASSISTANT: b"<assistant>", CLOSE: b"<close>"}
PIECES = [
    b"One",
    b" two",
    b", ",
    b"three",
    b" four.",
    b"\n",
    b"a\xc3",
    b"\xa9b",
    b" \xf0\x9f",
    b"\x8e",
    b"\x89!",
    b"STO",
    b"P it",
]
FIRST, BYTE = 10, 1000
BYTES = (
    SPECIAL
    | {FIRST + n: piece for n, piece in enumerate(PIECES)}
    | {BYTE + n: bytes([n]) for n in range(256)}
)
_GOES_ON = {b"a\xc3": b"\xa9b", b" \xf0\x9f": b"\x8e", b"\x8e": b"\x89!"}
_STARTS = [piece for piece in PIECES if piece[0] < 0x80]


def spelled(ids):
    return b"".join(BYTES[one] for one in ids)


def tokens_of(text):
    """The longest piece first, bytes where there is none: not always the tokens that were generated."""
    data, ids = text.encode(), []
    while data:
        fitting = [n for n, piece in enumerate(PIECES) if data.startswith(piece)]
        best = max(fitting, key=lambda n: len(PIECES[n]), default=None)
        ids.append(BYTE + data[0] if best is None else FIRST + best)
        data = data[len(BYTES[ids[-1]]) :]
    return ids


def prompt_of(messages, *, open_last=False):
    """As a template writes it, which trims the end of each message."""
    ids = []
    for message in messages:
        ids += [
            USER if message["role"] != "assistant" else ASSISTANT,
            *tokens_of((message["content"] or "").rstrip()),
            CLOSE,
        ]
    return ids[:-1] if open_last else [*ids, ASSISTANT]


def next_token(ids, length=20):
    """After the last turn of the assistant began, about `length` tokens."""
    begun = len(ids) - ids[::-1].index(ASSISTANT)
    said = spelled(ids[begun:])
    for half, rest in _GOES_ON.items():
        if said.endswith(half):
            return FIRST + PIECES.index(rest)
    if len(said) > 5 * length:
        return END
    dice = hashlib.sha256(spelled(ids[:begun]) + said).digest()
    return FIRST + PIECES.index(_STARTS[dice[0] % len(_STARTS)])


def generate(ids, limit=None):
    """The ids of the whole answer, the end included where it is reached."""
    answer = []
    while (limit is None or len(answer) < limit) and answer[-1:] != [END]:
        answer.append(next_token([*ids, *answer]))
    return answer
