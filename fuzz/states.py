"""A session's state as an oracle reads it: whose it is, how often it changed, and whatever else it is."""

import msgspec


class State(msgspec.Struct, frozen=True):
    """`value`: a counter's, of any other environment the JSON of all that is left.

    `effects`: how many there were since the seed.
    """

    seed: int
    value: int | str
    effects: int

    def whole(self) -> bytes:
        """The state as its environment wrote it, but for the order of its fields."""
        rest = {"value": self.value} if isinstance(self.value, int) else msgspec.json.decode(self.value)
        return msgspec.json.encode({**rest, "seed": self.seed, "effects": self.effects})


def read_state(written: bytes) -> State | None:
    """None where there is none: a verifier's."""
    fields = msgspec.json.decode(written, type=dict | None)
    if fields is None:
        return None
    seed, effects = fields.pop("seed"), fields.pop("effects")
    if fields.keys() == {"value"}:
        return State(seed, fields["value"], effects)
    return State(seed, msgspec.json.encode(fields, order="sorted").decode(), effects)
