"""Which JSON Schemas are judged, and by which draft: whole ones, which refer to nothing outside. Pure."""

from typing import Final

from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft3Validator, Draft202012Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from triocollect.protocol.values import Json, JsonObject

MOST_DEEP: Final = 64  # lists and objects in each other; each takes up to ten of the interpreter's frames
_REFERENCES: Final = ("$ref", "$dynamicRef")
_NOT_JUDGED: Final = {  # where the library looks each item up in a list of all, or searches with `re`
    "unevaluatedItems": "items",
    "unevaluatedProperties": "additionalProperties",
}
_LED_ASTRAY: Final = (Unresolvable, AttributeError, TypeError, ValueError)  # through a number, say


def dialect_of(schema: JsonObject) -> type[Validator]:
    """The draft that a schema is written in; the newest where it does not say.

    Raises ValueError where it is no schema of that draft, refers to what is none, or leaves itself.
    """
    _string(schema, "$schema")
    kind: type[Validator] = validator_for(schema, default=Draft202012Validator)
    if kind is Draft3Validator:
        raise ValueError("$schema: draft 3 is not judged here; there is draft 4, and later ones")
    if _deeper(schema, MOST_DEEP):
        raise ValueError(f"there are more than {MOST_DEEP} lists and objects in each other")
    _check(kind, schema)
    _walk(kind, schema)
    return kind


def _walk(kind: type[Validator], schema: JsonObject) -> None:
    """Look at every schema in a schema, and at all that they refer to, which a draft does not look at."""
    draft = specification_with(str(kind.META_SCHEMA["$schema"]))
    whole = draft.create_resource(schema)
    waiting, seen = [(whole, Registry().resolver_with_root(whole))], set[int]()
    checked = {id(schema)}  # with all in it: many references to one place are one look at it
    while waiting:
        resource, resolver = waiting.pop()
        part = resource.contents
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        _look(part, whole=part is schema)
        for keyword in _REFERENCES:
            if (reference := _string(part, keyword)) is not None:
                try:
                    found = resolver.lookup(reference)
                except _LED_ASTRAY:
                    raise ValueError(f"{reference!r} leads to nothing in the schema") from None
                if id(found.contents) not in checked:
                    _check(kind, found.contents, f"{reference!r} leads to no schema: ")
                    checked.add(id(found.contents))
                waiting.append((draft.create_resource(found.contents), found.resolver))
        waiting += [(inner, resolver.in_subresource(inner)) for inner in resource.subresources()]


def _look(part: JsonObject, *, whole: bool) -> None:
    if "$schema" in part and not whole:  # the library would judge it by its own keywords, without a bound
        raise ValueError("$schema: only the whole schema may say it")
    for keyword, better in _NOT_JUDGED.items():
        if keyword in part:
            raise ValueError(f"{keyword} is not judged here; say {better}")


def _string(part: JsonObject, keyword: str) -> str | None:
    if keyword not in part:
        return None
    if isinstance(value := part[keyword], str):
        return value
    raise ValueError(f"{keyword}: {value!r} is no string")


def _check(kind: type[Validator], schema: Json, why: str = "") -> None:
    try:
        kind.check_schema(schema)
    except SchemaError as fault:
        raise ValueError(f"{why}{fault.json_path}: {fault.message}") from None


def _deeper(value: Json, most: int) -> bool:
    match value:
        case list() | dict() if most == 0:
            return True
        case list():
            return any(_deeper(item, most - 1) for item in value)
        case dict():
            return any(_deeper(item, most - 1) for item in value.values())
        case _:
            return False
