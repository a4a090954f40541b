"""What can happen to the bytes of a file of lines or of one JSON object: a table of harms.

Each takes the dice and the bytes as they are, and gives other bytes.
"""

import gzip
import json
import random
from collections.abc import Callable
from typing import Final, TypeAlias

Dice: TypeAlias = random.Random
Harm: TypeAlias = Callable[[Dice, bytes], bytes]

VALUES: Final = (
    b"null", b"true", b"false", b"0", b"-0", b"-1", b"1", b"7", b"1.0", b"1e0", b"1e999", b"-1e999",
    b"1e-999", b"NaN", b"Infinity", b"-Infinity", b"01", b"1.", b"+1", b"0x10", b'"1"', b'""', b"[]",
    b"{}", b"[null]",
    b"4294967295", b"4294967296", b"9007199254740993", b"18446744073709551616", b"9" * 40, b"-" + b"9" * 40,
    b"9" * 4400, b"1" + b"0" * 400, b'"' + b"x" * 5000 + b'"', b'"../../../etc/passwd"', b'"/etc/passwd"',
    b'"."', b'".."', b'"a\\u0000b"', b'"a/../../b"', b'"\\ud800"', b'"\\udc00x"', b'"\\ud83d\\ude00"',
    b'"\xed\xa0\x80"', b'"\xff"', b'"\xc3"', b'"\xe2\x80\xa8"', b'"\x7f"', b'"a\tb"', b'"0-0"', b'"0-0-a1"',
    b'"-a1"', b'"\xef\xbb\xbf"', b"[1,]", b'{"a":1,}', b"'x'", b"// x", b"undefined", b'"\\x"', b'"\\u12"',
)  # fmt: skip
_STRANGE: Final = (b"", b" ", b"\t \r", b"\x0c", b"\x85", b"\xe2\x80\xa8", b"{}", b"{", b"42")
_DEEP: Final = (8, 120, 400, 505, 513, 700, 995, 1100, 5000, 200_000)


def _at(dice: Dice, data: bytes) -> int:
    return dice.randrange(len(data) + 1)


def _span(dice: Dice, data: bytes, most: int) -> tuple[int, int]:
    begin = _at(dice, data)
    return begin, min(len(data), begin + dice.randrange(1, most))


def bit_flips(dice: Dice, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 3)) if out else 0):
        out[dice.randrange(len(out))] ^= 1 << dice.randrange(8)
    return bytes(out)


def other_bytes(dice: Dice, data: bytes) -> bytes:
    begin, end = _span(dice, data, 6)
    return data[:begin] + dice.randbytes(end - begin) + data[end:]


def cut(dice: Dice, data: bytes) -> bytes:
    return data[: _at(dice, data)]


def cut_near_the_end(dice: Dice, data: bytes) -> bytes:
    return data[: max(0, len(data) - dice.randrange(1, 40))]


def head_lost(dice: Dice, data: bytes) -> bytes:
    return data[_at(dice, data) :]


def hole(dice: Dice, data: bytes) -> bytes:
    begin, end = _span(dice, data, 200)
    return data[:begin] + data[end:]


def nul_run(dice: Dice, data: bytes) -> bytes:
    begin, end = _span(dice, data, 300)
    return data[:begin] + bytes(end - begin) + data[end:]


def nul_run_between(dice: Dice, data: bytes) -> bytes:
    at = _at(dice, data)
    return data[:at] + bytes(dice.choice((1, 8, 64, 300, 4096))) + data[at:]


def all_nul(dice: Dice, data: bytes) -> bytes:
    return bytes(len(data))


def nul_tail(dice: Dice, data: bytes) -> bytes:
    return data + bytes(dice.choice((1, 64, 512, 4096)))


def empty(dice: Dice, data: bytes) -> bytes:
    return b""


def _over_lines(change: Callable[[Dice, list[bytes]], None]) -> Harm:
    def harm(dice: Dice, data: bytes) -> bytes:
        lines = data.split(b"\n")
        change(dice, lines)
        return b"\n".join(lines)

    harm.__name__ = change.__name__.lstrip("_")
    return harm


def _glued(dice: Dice, lines: list[bytes]) -> None:
    if len(lines) > 1:
        at = dice.randrange(len(lines) - 1)
        lines[at : at + 2] = [lines[at] + lines[at + 1]]


def _torn_and_glued(dice: Dice, lines: list[bytes]) -> None:
    if len(lines) > 1:
        at = dice.randrange(len(lines) - 1)
        lines[at : at + 2] = [cut(dice, lines[at]) + lines[at + 1]]


def _nul_and_glued(dice: Dice, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    lines[at] = bytes(dice.choice((1, 64, 300))) + lines[at]


def _line_twice(dice: Dice, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    lines.insert(dice.randrange(len(lines)), lines[at])


def _line_lost(dice: Dice, lines: list[bytes]) -> None:
    del lines[dice.randrange(len(lines))]


def _lines_moved(dice: Dice, lines: list[bytes]) -> None:
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _carriage_return(dice: Dice, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    lines[at] += dice.choice((b"\r", b"\r\r", b" \r", b"\r{}"))


def _carriage_returns(dice: Dice, lines: list[bytes]) -> None:
    lines[:-1] = [line + b"\r" for line in lines[:-1]]


def _byte_order_mark(dice: Dice, lines: list[bytes]) -> None:
    at = dice.choice((0, dice.randrange(len(lines))))
    lines[at] = dice.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xef\xbb\xbf\xef\xbb\xbf")) + lines[at]


def _strange_line(dice: Dice, lines: list[bytes]) -> None:
    lines.insert(dice.randrange(len(lines) + 1), dice.choice((*_STRANGE, *VALUES)))


def _strange_separator(dice: Dice, lines: list[bytes]) -> None:
    at = dice.randrange(len(lines))
    between = dice.choice((b"\r", b"\x0b", b"\x0c", b"\xe2\x80\xa8", b" "))
    lines[at] = lines[at].replace(b",", b"," + between, 1)


def _deep(dice: Dice, lines: list[bytes]) -> None:
    at, depth = dice.randrange(len(lines)), dice.choice(_DEEP)
    opening, closing = dice.choice(((b"[", b"]"), (b'{"a":', b"}")))
    value = opening * depth + b"1" + closing * dice.choice((depth, depth, depth - 1, 0))
    lines[at] = value if dice.random() < 0.2 else lines[at].replace(b":", b":" + value + b',"b":', 1)


def _other_value(dice: Dice, lines: list[bytes]) -> None:
    """One value of one line is another; the rest is spelled as it was."""
    at = dice.randrange(len(lines))
    fields = _fields(lines[at])
    if not fields:
        return
    nth, value = dice.randrange(len(fields)), dice.choice(VALUES)
    fields[nth] = (fields[nth][0], value if dice.random() < 0.8 else dice.choice(fields)[1])
    lines[at] = _joined(fields)


def _other_fields(dice: Dice, lines: list[bytes]) -> None:
    """Two values change places, or a field goes, comes twice, or has another name."""
    at = dice.randrange(len(lines))
    fields = _fields(lines[at])
    if not fields:
        return
    one, other = dice.randrange(len(fields)), dice.randrange(len(fields))
    match dice.randrange(4):
        case 0:
            (a, x), (b, y) = fields[one], fields[other]
            fields[one], fields[other] = (a, y), (b, x)
        case 1:
            del fields[one]
        case 2:
            fields.insert(other, (fields[one][0], dice.choice((fields[other][1], fields[one][1], b"0"))))
        case _:
            fields[one] = (fields[one][0] + dice.choice(("", "x", "\ufeff", " ")), fields[one][1])
    lines[at] = _joined(fields)


def _inner_value(dice: Dice, lines: list[bytes]) -> None:
    """The same within what a field holds: a path of a manifest, an attempt in a list."""
    at = dice.randrange(len(lines))
    try:
        whole = json.loads(lines[at])
    except (ValueError, RecursionError):
        return
    places = _places(whole)
    if not places:
        return
    container, key = dice.choice(places)
    container[key] = "\0here\0"
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")
    lines[at] = text.replace(b'"\\u0000here\\u0000"', dice.choice(VALUES), 1)


def _fields(line: bytes) -> list[tuple[str, bytes]]:
    try:
        whole = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if not isinstance(whole, dict):
        return []
    return [(key, json.dumps(value, separators=(",", ":")).encode()) for key, value in whole.items()]


def _joined(fields: list[tuple[str, bytes]]) -> bytes:
    return b"{" + b",".join(json.dumps(key).encode() + b":" + value for key, value in fields) + b"}"


def _places(value: object) -> list[tuple[list[object] | dict[str, object], int | str]]:
    found: list[tuple[list[object] | dict[str, object], int | str]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        keys = range(len(one)) if isinstance(one, list) else list(one) if isinstance(one, dict) else ()
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def noise(dice: Dice, data: bytes) -> bytes:
    return dice.randbytes(dice.choice((1, 7, 64, 1000)))


def noise_behind(dice: Dice, data: bytes) -> bytes:
    return data + dice.choice((dice.randbytes(dice.randrange(1, 60)), b"{", b'{"', b"\\", b"}", data[:50]))


HARMS: Final[dict[str, Harm]] = {
    harm.__name__.replace("_", " "): harm
    for harm in (
        bit_flips, other_bytes, cut, cut_near_the_end, head_lost, hole, nul_run, nul_run_between, all_nul,
        nul_tail, empty, noise, noise_behind,
        *map(_over_lines, (
            _glued, _torn_and_glued, _nul_and_glued, _line_twice, _line_lost, _lines_moved, _carriage_return,
            _carriage_returns, _byte_order_mark, _strange_line, _strange_separator, _deep, _other_value,
            _other_fields, _inner_value,
        )),
    )
}  # fmt: skip


TOTAL: Final = {"empty", "all nul", "noise"}  # nothing is left of what was there, harmed before or not


def packed(dice: Dice, data: bytes) -> bytes:
    """The same bytes in one gzip member or in several."""
    at = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randrange(3)))
    parts = [data[begin:end] for begin, end in zip([0, *at], [*at, len(data)], strict=True)]
    return b"".join(gzip.compress(part, 1, mtime=0) for part in parts)


def way_out(dice: Dice, data: bytes) -> bytes:
    """A path that leads to the right file by way of another place."""
    by_way = (
        (b'"participants/', b'"participants/../participants/'),
        (b'"participants/', b'"../ckpt-00000%d/participants/' % dice.randrange(1, 7)),
        (b'"participants/', b'"./participants/'),
        (b'"participants/environment/', b'"participants/environment/../environment/'),
        (b'"participants/environment/', b'"participants/environment//'),
        (b"/manifest.json", b"/../env/manifest.json"),
    )
    return data.replace(*dice.choice(by_way))


SIGNED: Final[dict[str, Harm]] = {  # by somebody who knows how digests are made
    "way out": way_out,
    **{name: HARMS[name] for name in ("inner value", "other value", "other fields", "line twice")},
}
