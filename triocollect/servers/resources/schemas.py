"""Whether a value fits a JSON Schema, for schemas and values of any origin. Pure but for a clock.

No reference leaves the schema, and no judging goes on for ever: every keyword that is looked at is counted,
and all searches with patterns of the schema's together have a deadline.
"""

import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias, final

import msgspec
import regex
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, extend, validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

from triocollect.protocol.values import Json, JsonObject

MOST_STEPS: Final = 50_000  # keywords that are looked at
SEARCHING_S: Final = 1.0  # for patterns, in all


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

    Raises ValueError for a schema that is none.
    """
    try:
        error = next(_validator(schema).iter_errors(instance), None)
    except _EndlessError as limit:
        return str(limit)
    except RecursionError:
        return "the schema, or the value, is too deep"
    except SchemaError as fault:
        raise ValueError(fault.message) from None
    except (Unresolvable, regex.error) as fault:
        raise ValueError(str(fault)) from None
    return None if error is None else f"{error.json_path}: {error.message}"


def _validator(schema: JsonObject) -> _Validator:
    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    judging = _Judging()
    own = judging.own()
    keywords = {name: judging.counted(own.get(name, judge)) for name, judge in kind.VALIDATORS.items()}
    validator: _Validator = extend(kind, keywords)(schema, registry=REGISTRY)  # the meta-schemas, no network
    return validator


@final
class _Judging:
    """One judging, and what is left of its bounds."""

    def __init__(self) -> None:
        self._steps, self._searching_s = MOST_STEPS, SEARCHING_S

    def own(self) -> dict[str, _Keyword]:
        """Keywords that search with patterns, or that take long in the library."""
        return {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "unevaluatedProperties": _unevaluated_properties,
            "uniqueItems": _unique_items,
        }

    def counted(self, judge: _Keyword) -> _Keyword:
        """The same keyword, counted."""

        def judged(
            validator: _Validator, value: Json, instance: Json, schema: JsonObject
        ) -> Iterator[ValidationError]:
            self._steps -= 1
            if self._steps < 0:
                raise _EndlessError(f"judging takes more than {MOST_STEPS} steps")
            yield from judge(validator, value, instance, schema) or ()

        return judged

    def _matches(self, pattern: str, text: str) -> bool:
        """`re.search` under a deadline, which the `re` module cannot have."""
        began = time.monotonic()
        try:
            return regex.search(pattern, text, timeout=max(self._searching_s, 0.001)) is not None
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


def _unevaluated_properties(
    _: _Validator, __: Json, ___: Json, ____: JsonObject
) -> Iterator[ValidationError]:
    """The library's searches with patterns deep inside itself."""
    raise ValueError("unevaluatedProperties is not judged here; say additionalProperties")


def _unique_items(_: _Validator, wanted: Json, instance: Json, __: JsonObject) -> Iterator[ValidationError]:
    """The library's compares each with each where they have no order."""
    if wanted and isinstance(instance, list):
        texts = {msgspec.json.encode(_plain(item), order="sorted") for item in instance}
        if len(texts) < len(instance):
            yield ValidationError("two of its items are equal")


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
