"""JSON as a type, for the few places where foreign JSON is decoded at all."""

from typing import Final, TypeAlias

import msgspec

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]

# What decoding bytes raises where they are not the JSON that was looked for. Nesting is its own error, which
# no msgspec error is, and how deep is too deep depends on how deep the caller stands.
NOT_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
