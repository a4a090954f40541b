"""What a failure says, in a line for people: its message, and the first words of what the server answered."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from triocollect.protocol.ids import RowKey
from triocollect.records.fate import is_there, text_of
from triocollect.records.findings import Findings
from triocollect.records.heads import SidecarHead, head_of
from triocollect.records.lines import Lines

_LONGEST: Final = 320  # characters: a server that asks another names both before it says what broke
_LOOKED_AT: Final = 4096
_PAGE: Final = re.compile(r"<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_MARKUP: Final = re.compile(r"<(style|script)\b.*?</\1\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_SECRETS: Final = (
    re.compile(r"(://)[^\s/?#]+(?=@)"),
    re.compile(r"((?<![a-z])authorization\\*[\"']?\s*[:=]\s*\\*[\"']?)[^\\\"'\n]+", re.IGNORECASE),
    re.compile(
        r"((?<![a-z])(?:api[ _-]?key(?:\s+provided)?|password|secret|(?:access|auth|control)[_-]?token)"
        r"\\*[\"']?\s*[:=]\s*\\*[\"']?|(?<![a-z])(?:token|key)=|\bbearer\s+|\bsk-|\bhf_)[^\s\\\"'&;]+",
        re.IGNORECASE,
    ),
)


class FailureHead(SidecarHead):
    """A line of the sidecar with its words."""

    message: Raw | UnsetType = msgspec.field(name="_ng_failure_message", default=UNSET)
    body: Raw | UnsetType = msgspec.field(name="_ng_failure_response_body", default=UNSET)

    @property
    def cause(self) -> str:
        """See `cause_of`."""
        return _words(_there(self.error if self.message is UNSET else self.message), _there(self.body))


decode_failure_head: Final = msgspec.json.Decoder(FailureHead).decode


def cause_of(fields: Mapping[str, Raw]) -> str:
    """Of a failure record, on one line, short, and without what looks like a secret."""
    return _words(
        fields.get("_ng_failure_message", fields.get("error")), fields.get("_ng_failure_response_body")
    )


def causes_in(sidecar: Path, classes: Mapping[RowKey, str]) -> dict[str, str]:
    """One cause of each class, of rows whose last failure is of it. Raises StorageError."""
    found, wanted = dict[str, str](), set(classes.values())
    for line in Lines(sidecar) if wanted else ():
        head = head_of(line, decode_failure_head, Findings(sidecar))
        if head is not None and classes.get(head.key) == head.failure_class not in found:
            found[head.failure_class] = head.cause
            if len(found) == len(wanted):
                break
    return {failure_class: words for failure_class, words in found.items() if words}


def _there(field: Raw | UnsetType) -> Raw | None:
    return field if isinstance(field, Raw) else None


def _words(message: Raw | None, body: Raw | None) -> str:
    said = (plain(text_of(one)) for one in (message, body) if is_there(one))
    line = ": ".join(filter(None, said))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def plain(text: str) -> str:
    """The text on one line, without what looks like a secret.

    Of a page what it says, of an answer that is a JSON string that string.
    """
    if text.startswith('"'):
        text = text_of(Raw(text.encode("utf-8", "replace")))
    text = text[:_LOOKED_AT]
    if _PAGE.search(text):
        text = _MARKUP.sub(" ", text)
    for secret in _SECRETS:
        text = secret.sub(r"\1…", text)
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
