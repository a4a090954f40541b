"""Settings as people write them: durations, sizes, yes and no. Pure; every fault is a ValueError in words."""

import math
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_WHOLE: Final = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_DURATION: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|m|h|d)?", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kmgt]i?)?(b)?", re.ASCII | re.IGNORECASE)
_FACTORS: Final = {
    prefix + suffix: base ** (power + 1)
    for power, prefix in enumerate("kmgt")
    for suffix, base in (("", 1000), ("i", 1024))
}
_TRUTHS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_BLANK: Final = re.compile(r"[\x00-\x20\x7f]")
_HALVES: Final = re.compile("[\ud800-\udfff]")
_LARGEST: Final = 2**63 - 1
_LAST_PORT: Final = 65535
_SHOWN: Final = 60


def shown(value: object) -> str:
    """A wrong value in a message: JSON's words, cut short."""
    match value:
        case None | True | False:
            words = {None: "null", True: "true", False: "false"}[value]
        case dict():
            words = "a map"
        case list() | tuple():
            words = "a list"
        case int() if abs(value) > _LARGEST:
            words = "a number too large"
        case int() | float():
            words = str(value)
        case str():
            words = repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
        case _:
            words = f"{value} (a {type(value).__name__})"[:_SHOWN]
    return words


def is_text(value: object) -> bool:
    """Whether all text in a value is Unicode: bytes of a command line that are not UTF-8 are halves."""
    if isinstance(value, str):
        return not _HALVES.search(value)
    if isinstance(value, Mapping):
        return all(is_text(key) and is_text(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_text, value))
    return True


def truth(text: str) -> bool:
    """`true`/`false`, and the other usual words for them."""
    if text.strip().lower() not in _TRUTHS:
        raise ValueError(f"needs true or false, not {shown(text)}")
    return _TRUTHS[text.strip().lower()]


def whole_number(text: str) -> int:
    """A whole number in decimal digits."""
    digits = text.strip()
    if not _WHOLE.fullmatch(digits):
        raise ValueError(f"needs a whole number, not {shown(text)}")
    if len(digits) > len(str(_LARGEST)):
        raise ValueError("is too large a number")
    return int(digits)


def within(number: int, *, least: int, most: int = _LARGEST) -> int:
    """The number, if it lies within the limits."""
    if number < least:
        raise ValueError(f"must be at least {least}, not {shown(number)}")
    if number > most:
        raise ValueError(f"must be at most {most}, not {shown(number)}")
    return number


def seconds(text: str, *, unit_required: bool = False) -> float:
    """`90`, `90s`, `15m`, `2h`, `1.5d`, `250ms` in seconds.

    In a settings file a number stands for seconds and needs no quotes, so there quoted text must have a unit.
    """
    hit = _DURATION.fullmatch(text.strip())
    if hit is None or (unit_required and hit[2] is None):
        how = "a number, or text with a unit" if unit_required else "seconds or a unit"
        raise ValueError(f"needs a duration ({how}: 90s, 15m, 2h), not {shown(text)}")
    return positive(float(hit[1]) * _SECONDS[hit[2] or "s"], text)


def positive(number: float, written: object) -> float:
    """The number of seconds, if time can last that long."""
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"must be a duration above 0, not {shown(written)}")
    return number


def size(text: str, *, unit_required: bool = False) -> int:
    """`1000000`, `256MiB`, `2GB` in bytes; KB, MB, GB are powers of 1000, KiB, MiB, GiB of 1024."""
    hit = _SIZE.fullmatch(text.strip())
    prefix = hit[2].lower() if hit is not None and hit[2] else ""
    without_unit = hit is not None and not hit[2] and not hit[3]
    ambiguous = hit is not None and bool(hit[2]) and not hit[3]  # 256M: of 1000 or of 1024?
    if hit is None or ambiguous or (unit_required and without_unit):
        raise ValueError(f"needs a size (1000000, 256MiB, 2GB), not {shown(text)}")
    number = float(hit[1]) * _FACTORS[prefix] if prefix else float(hit[1])
    if number != int(number):
        raise ValueError(f"needs a whole number of bytes, not {shown(text)}")
    return within(int(number), least=1)


def base_url(text: str) -> str:
    """An http(s) URL to which `/run` and the like can be appended. Never repeats credentials."""
    wrong = f"needs an http:// or https:// URL such as http://127.0.0.1:8000, not {shown(text)}"
    if "@" in text:
        raise ValueError("must not hold a user name or password (or any '@')")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(wrong) from None
    if not usable or _BLANK.search(text):
        raise ValueError(wrong)
    if parts.query or parts.fragment:
        raise ValueError("must be a base URL, without '?' or '#'")
    return text.rstrip("/")


def host_and_port(text: str) -> str:
    """`HOST:PORT`, where something is to listen; an IPv6 address in brackets."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and not _BLANK.search(text) and port.isascii() and port.isdigit()):
        raise ValueError(f"needs HOST:PORT such as 127.0.0.1:9464, not {shown(text)}")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"needs brackets around the address, [::1]:9464, not {shown(text)}")
    within(whole_number(port), least=1, most=_LAST_PORT)
    return text
