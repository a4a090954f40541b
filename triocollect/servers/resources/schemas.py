"""Whether a value fits a JSON Schema, for schemas and values of any origin. Pure.

No reference leaves the schema, and no judging goes on for ever: every keyword that is looked at is counted,
and every search with a pattern of the schema's has a deadline.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias, final

import regex
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, extend, validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

from triocollect.protocol.values import Json, JsonObject

MOST_STEPS: Final = 50_000  # keywords that are looked at
PATTERN_S: Final = 0.5  # what one pattern may take for one text


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
    bounds = _Bounds()
    keywords = {name: bounds.counted(_OWN.get(name, judge)) for name, judge in kind.VALIDATORS.items()}
    validator: _Validator = extend(kind, keywords)(schema, registry=REGISTRY)  # the meta-schemas, no network
    return validator


@final
class _Bounds:
    def __init__(self) -> None:
        self._left = MOST_STEPS

    def counted(self, judge: _Keyword) -> _Keyword:
        def judged(
            validator: _Validator, value: Json, instance: Json, schema: JsonObject
        ) -> Iterator[ValidationError]:
            self._left -= 1
            if self._left < 0:
                raise _EndlessError(f"judging takes more than {MOST_STEPS} steps")
            yield from judge(validator, value, instance, schema) or ()

        return judged


def _pattern(_: _Validator, pattern: Json, instance: Json, __: JsonObject) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(str(pattern), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: _Validator, patterns: Json, instance: Json, _: JsonObject
) -> Iterator[ValidationError]:
    if isinstance(instance, dict) and isinstance(patterns, dict):
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(
    validator: _Validator, allowed: Json, instance: Json, schema: JsonObject
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
    assert isinstance(named, dict)
    assert isinstance(patterns, dict)
    for name in instance:
        if name in named or any(_matches(pattern, name) for pattern in patterns):
            continue
        if allowed is False:
            yield ValidationError(f"{name!r} is no property that may be here")
        else:
            yield from validator.descend(instance[name], allowed, path=name)


def _unevaluated_properties(
    _: _Validator, __: Json, ___: Json, ____: JsonObject
) -> Iterator[ValidationError]:
    raise ValueError("unevaluatedProperties is not judged here; say additionalProperties")


def _matches(pattern: str, text: str) -> bool:
    """`re.search` under a deadline, which the `re` module cannot have."""
    try:
        return regex.search(pattern, text, timeout=PATTERN_S) is not None
    except TimeoutError:
        raise _EndlessError(f"the pattern {pattern!r} comes to no end") from None


# Whatever searches with patterns; the library's `unevaluatedProperties` does so deep inside itself.
_OWN: Final[dict[str, _Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
}
