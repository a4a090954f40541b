"""An answer of a participant, held against what it has to be. Pure."""

from typing import Final, TypeVar

import msgspec
from attrs import frozen

from triocollect.errors import BrokenPromiseError
from triocollect.protocol.messages import Answer
from triocollect.protocol.refusals import Code, Refusal, RefusalBody, status_of
from triocollect.protocol.values import NOT_JSON

SUCCESS: Final = range(200, 300)
_OK: Final = 200
_QUOTED: Final = 200  # characters of an answer that are shown

A = TypeVar("A", bound=Answer)


@frozen
class Reply:
    """What came back, and what was asked, in words."""

    asked: str
    status: int
    body: bytes
    call_id: str | None = None  # of a policy call, where the server names them

    @property
    def answered(self) -> str:
        """The answer for people."""
        text = self.body[: 4 * _QUOTED].decode(errors="replace")
        shown = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"
        return f"{self.status or ''} {shown}".strip()

    @property
    def code(self) -> str | None:
        """The word of a refusal; None where it is none."""
        refusal = self._refusal()
        return None if refusal is None else refusal.code

    @property
    def boot(self) -> str | None:
        """Of the process that carried the call out; None where it was not carried out."""
        if self.status != _OK:
            return None
        try:
            return msgspec.json.decode(self.body, type=Answer).boot
        except NOT_JSON:
            return None

    @property
    def success(self) -> bool:
        """Whether it is a success of HTTP."""
        return self.status in SUCCESS

    def done(self, kind: type[A]) -> A:
        """The answer of a call that was carried out. Raises BrokenPromiseError where it was not."""
        if self.status == _OK:
            try:
                return msgspec.json.decode(self.body, type=kind)
            except NOT_JSON as error:
                raise self.broken(f"a reply of the protocol's shape ({error})") from None
        raise self.broken(f"200 with {', '.join(kind.__struct_fields__)}")

    def refused(self, *codes: Code) -> Refusal:
        """The refusal, which has one of these codes and its status. Raises BrokenPromiseError."""
        refusal = self._refusal()
        if refusal is None or all((refusal.code, self.status) != (code, status_of(code)) for code in codes):
            raise self.broken(" or ".join(f"{status_of(code)} {code}" for code in codes))
        return refusal

    def must(self, holds: object, expected: str) -> None:
        """Raise BrokenPromiseError unless what was expected holds."""
        if not holds:
            raise self.broken(expected)

    def broken(self, expected: str) -> BrokenPromiseError:
        """What to raise: something else was expected."""
        return BrokenPromiseError(asked=self.asked, answered=self.answered, expected=expected)

    def _refusal(self) -> Refusal | None:
        try:
            return msgspec.json.decode(self.body, type=RefusalBody).error
        except NOT_JSON:
            return None
