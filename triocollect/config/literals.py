"""Values as Hydra's override grammar spells them: `[x, y]`, `{a: b}`, quotes, numbers, true, null. Pure.

More lenient than Hydra in one way: unquoted text at the top level may hold any character, so that paths need
no escaping. Sweeps, casts and interpolation are not evaluated.
"""

import re
from typing import Final

from triocollect.protocol.values import Json, JsonObject

_INT: Final = re.compile(r"[+-]?(0|[1-9](_?[0-9])*)")
_DIGITS: Final = r"[0-9](_?[0-9])*"
_FLOAT: Final = re.compile(
    rf"[+-]?(({_DIGITS})?\.{_DIGITS}|{_DIGITS}\.|(({_DIGITS})?\.{_DIGITS}|{_DIGITS}\.?)[eE][+-]?{_DIGITS})"
)
_NAMED: Final = {"true": True, "false": False, "null": None}
_NOT_FINITE: Final = re.compile(r"[+-]?(inf|nan)", re.IGNORECASE)
_MAX_INT_DIGITS: Final = 300  # far below the length at which the interpreter refuses to convert
_ESCAPABLE: Final = "\\()[]{}:=, \t"
_MAX_DEPTH: Final = 100


def parse_literal(text: str) -> Json:
    """The value that `text` spells. Raises ValueError, in words, for an open bracket or quote."""
    reader = _Reader(text.strip())
    if reader.text.startswith(("[", "{", "'", '"')):
        value = reader.element(stop="", depth=0)
        if reader.at < len(reader.text):
            raise ValueError(f"{reader.rest()!r} follows the end of the value")
        return value
    return _scalar(reader.text, *_unescape(reader.text))


class _Reader:
    """A cursor over one value."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.at = 0

    def rest(self) -> str:
        return self.text[self.at : self.at + 20]

    def next_is(self, mark: str) -> bool:
        """Skip blanks; consume `mark` where it comes next."""
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        return False

    def element(self, stop: str, depth: int) -> Json:
        if depth > _MAX_DEPTH:
            raise ValueError(f"brackets are nested more than {_MAX_DEPTH} deep")
        if self.next_is("["):
            return self.list_items(depth)
        if self.next_is("{"):
            return self.map_items(depth)
        for quote in "'\"":
            if self.next_is(quote):
                return self.quoted(quote)
        return _scalar(*self.unquoted(stop))

    def list_items(self, depth: int) -> list[Json]:
        items: list[Json] = []
        if self.next_is("]"):
            return items
        while True:
            items.append(self.element(",]", depth + 1))
            if self.next_is("]"):
                return items
            if not self.next_is(","):
                raise ValueError(f"expected ',' or ']' before {self.rest()!r}")

    def map_items(self, depth: int) -> JsonObject:
        items: JsonObject = {}
        if self.next_is("}"):
            return items
        while True:
            key = self.key()
            if not self.next_is(":"):
                raise ValueError(f"expected ':' after the key {key!r}")
            if key in items:
                raise ValueError(f"the key {key!r} stands there twice")
            items[key] = self.element(",}", depth + 1)
            if self.next_is("}"):
                return items
            if not self.next_is(","):
                raise ValueError(f"expected ',' or '}}' before {self.rest()!r}")

    def key(self) -> str:
        for quote in "'\"":
            if self.next_is(quote):
                return self.quoted(quote)
        return self.unquoted(":")[1]

    def quoted(self, quote: str) -> str:
        """Up to the closing quote; only quotes, and backslashes right before one, can be escaped."""
        start = self.at
        while self.at < len(self.text):
            if self.text[self.at] == quote:
                slashes = len(self.text[start : self.at]) - len(self.text[start : self.at].rstrip("\\"))
                if slashes % 2 == 0:
                    raw = self.text[start : self.at]
                    self.at += 1
                    return _unescape_quoted(raw, quote)
            self.at += 1
        raise ValueError(f"the quote {quote} is never closed")

    def unquoted(self, stop: str) -> tuple[str, str, bool]:
        """(as written, unescaped, whether anything was escaped), up to an unescaped mark of `stop`."""
        self.next_is("")
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stop:
            if self.text[self.at] in "[]{}":
                raise ValueError(f"an unexpected {self.text[self.at]!r}: quote the text that holds it")
            escaped = self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] != ""
            self.at += 2 if escaped else 1
        if self.at >= len(self.text):
            raise ValueError("a bracket is never closed")
        raw = self.text[start : self.at].strip()
        if not raw:
            raise ValueError(f"nothing stands before {self.text[self.at]!r}")
        return (raw, *_unescape(raw))


def _unescape(raw: str) -> tuple[str, bool]:
    text = re.sub(r"\\(.)", lambda hit: hit[1] if hit[1] in _ESCAPABLE else hit[0], raw, flags=re.DOTALL)
    return text, text != raw


def _unescape_quoted(raw: str, quote: str) -> str:
    def halve(hit: re.Match[str]) -> str:
        return "\\" * (len(hit[1]) // 2) + hit[2]

    return re.sub(rf"(\\+)({quote}|\Z)", halve, raw)


def _scalar(raw: str, text: str, escaped: bool) -> Json:  # noqa: FBT001  # the triple that `unquoted` reads
    if escaped:
        return text
    if raw.lower() in _NAMED:
        return _NAMED[raw.lower()]
    if _INT.fullmatch(raw) and len(raw) <= _MAX_INT_DIGITS:
        return int(raw)
    if _FLOAT.fullmatch(raw) or _NOT_FINITE.fullmatch(raw):
        return float(raw)
    return raw
