"""Whether a value fits a JSON Schema, for schemas and values of any origin. Pure but for a clock.

No judging goes on for ever, or deeper than the interpreter goes: every keyword that is looked at is counted,
with the size of what it looks at, and all searches with patterns of the schema's together have a deadline.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias, final

import msgspec
import regex
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from triocollect.protocol.values import Json, JsonObject
from triocollect.servers.resources.dialects import dialect_of

MOST_STEPS: Final = 50_000  # keywords that are looked at
SEARCHING_S: Final = 1.0  # for patterns, in all
_MOST_NESTED: Final = 128  # keywords within keywords; each takes some five of the interpreter's frames
TOO_DEEP: Final = "the schema, or the value, is too deep"
_ENTRIES_A_STEP: Final = 50  # of a list, object or text: they take about as long as a keyword


class _Validator(Protocol):
    """What jsonschema hands to a keyword."""

    def descend(
        self, instance: Json, schema: Json, path: str | None = None, schema_path: str | None = None
    ) -> Iterator[ValidationError]: ...

    def iter_errors(self, instance: Json) -> Iterator[ValidationError]: ...


_Keyword: TypeAlias = Callable[[_Validator, Json, Json, JsonObject], Iterator[ValidationError] | None]


class _EndlessError(Exception):
    """Judging takes more than it may."""


def misfit(instance: Json, schema: JsonObject) -> str | None:
    """Where a value does not fit, in words; None where it fits.

    Raises ValueError for a schema that is none, or that is not judged here.
    """
    kind, judging = dialect_of(schema), _Judging()
    own = judging.own()
    keywords = {name: judging.counted(own.get(name, judge)) for name, judge in kind.VALIDATORS.items()}
    # With its `$schema` a reference to all of it would be judged by the library's own keywords.
    bare = {name: value for name, value in schema.items() if name != "$schema"}
    validator: _Validator = extend(kind, keywords)(bare, registry=Registry())
    try:
        error = next(validator.iter_errors(instance), None)
    except _EndlessError as limit:
        return str(limit)
    except ArithmeticError:  # a whole number beyond every float, which a `multipleOf` divides
        return "a number in the value is too large to be judged"
    except RecursionError:
        return TOO_DEEP
    except regex.error as fault:
        raise ValueError(str(fault)) from None
    return None if error is None else f"{error.json_path}: {error.message}"


@final
class _Judging:
    """One judging, and what is left of its bounds."""

    def __init__(self) -> None:
        self._steps, self._nested, self._searching_s = MOST_STEPS, 0, SEARCHING_S

    def own(self) -> dict[str, _Keyword]:
        """Keywords that search with patterns, or that take long in the library."""
        return {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": _unique_items,
        }

    def counted(self, judge: _Keyword) -> _Keyword:
        """The same keyword, counted."""

        def judged(
            validator: _Validator, value: Json, instance: Json, schema: JsonObject
        ) -> Iterator[ValidationError]:
            self._steps -= 1 + (_size(value) + _size(instance)) // _ENTRIES_A_STEP
            if self._steps < 0:
                raise _EndlessError(f"judging takes more than {MOST_STEPS} steps")
            if self._nested == _MOST_NESTED:  # within the library even a RecursionError is not safe
                raise _EndlessError(TOO_DEEP)
            self._nested += 1
            try:
                yield from judge(validator, value, instance, schema) or ()
            finally:
                self._nested -= 1

        return judged

    def _matches(self, pattern: str, text: str) -> bool:
        """`re.search` under a deadline, which the `re` module cannot have."""
        if self._searching_s <= 0:
            raise _EndlessError("searching with the patterns comes to no end")
        began = time.monotonic()
        try:
            return regex.search(pattern, text, timeout=self._searching_s) is not None
        except TimeoutError:
            raise _EndlessError(f"the pattern {pattern!r} comes to no end") from None
        finally:
            self._searching_s -= time.monotonic() - began

    def _pattern(
        self, _: _Validator, pattern: Json, instance: Json, __: JsonObject
    ) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not self._matches(str(pattern), instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: _Validator, patterns: Json, instance: Json, _: JsonObject
    ) -> Iterator[ValidationError]:
        if isinstance(instance, dict) and isinstance(patterns, dict):
            for pattern, schema in patterns.items():
                for name, value in instance.items():
                    if self._matches(pattern, name):
                        yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def _additional_properties(
        self, validator: _Validator, allowed: Json, instance: Json, schema: JsonObject
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        named, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
        assert isinstance(named, dict)
        assert isinstance(patterns, dict)
        for name, value in instance.items():
            if name in named or any(self._matches(pattern, name) for pattern in patterns):
                continue
            if allowed is False:
                yield ValidationError(f"{name!r} is no property that may be here")
            else:
                yield from validator.descend(value, allowed, path=name)


def _unique_items(_: _Validator, wanted: Json, instance: Json, __: JsonObject) -> Iterator[ValidationError]:
    """The library's compares each with each where they have no order."""
    if wanted and isinstance(instance, list):
        texts = {msgspec.json.encode(_plain(item), order="sorted") for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("two of its items are equal")


def _size(value: Json) -> int:
    return len(value) if isinstance(value, list | dict | str) else 0


def _plain(value: Json) -> Json:
    """The same for equal values: 1.0 is 1."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case _:
            return value
