"""A value together with where it came from, and how values of several origins become one. Pure."""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import frozen

_PLACE_IN_LIST: Final = re.compile(r"^\[\d+\]")


@frozen
class Given:
    """One value as it was given.

    `spelled` is the name its author used (`--limit`, `TRIOCOLLECT_LIMIT`, `limit`), `place` where that stands
    (`(command line)`, `in settings.toml`; empty for a program's own call). `text`: it is text because the
    place knows nothing else, so numbers in it are numbers; otherwise its type counts.
    """

    value: object
    spelled: str
    place: str
    text: bool = False

    def label(self, path: str = "") -> str:
        """The name for a message: `--limit (command line)`, `fan_out.a1[0] in settings.toml`.

        A flag that is repeated is no list to who gives it.
        """
        if self.spelled.startswith("--"):
            path = _PLACE_IN_LIST.sub("", path)
        return f"{self.spelled}{path} {self.place}".rstrip()

    def inner(self, key: str) -> "Given":
        """The part of a map under `key`, which must be there."""
        assert isinstance(self.value, Mapping)
        part: object = self.value[key]
        return Given(part, f"{self.spelled}.{key}", self.place, self.text and isinstance(part, str))


Tree: TypeAlias = "Given | dict[str, Tree]"


class GivenTwiceError(Exception):
    """Two different values for one thing from the same origin."""

    def __init__(self, first: Given, second: Given) -> None:
        super().__init__(f"{second.label()}: contradicts {first.label()}; give one of them")


def spread(given: Given) -> Tree:
    """Maps become trees, so that they can be merged key by key; text keys only, others are judged later."""
    if isinstance(given.value, Mapping) and all(isinstance(key, str) for key in given.value):
        return {key: spread(given.inner(key)) for key in given.value}
    return given


def nest(tree: Tree, path: tuple[str, ...]) -> Tree:
    """The tree below the keys of `path`."""
    for key in reversed(path):
        tree = {key: tree}
    return tree


def override(low: Tree, high: Tree) -> Tree:
    """`high` wins, key by key where both are maps."""
    if isinstance(low, dict) and isinstance(high, dict):
        return low | {key: override(low[key], high[key]) if key in low else high[key] for key in high}
    return high


def unite(first: Tree, second: Tree) -> Tree:
    """Two values of one origin, of which neither wins. Raises GivenTwiceError where they differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first | {
            key: unite(first[key], second[key]) if key in first else second[key] for key in second
        }
    if plain(first) == plain(second) and type(plain(first)) is type(plain(second)):
        return first
    raise GivenTwiceError(any_leaf(first), any_leaf(second))


def plain(tree: Tree) -> object:
    """The value without where it came from."""
    return {key: plain(branch) for key, branch in tree.items()} if isinstance(tree, dict) else tree.value


def any_leaf(tree: Tree) -> Given:
    """Where something of the tree came from."""
    while isinstance(tree, dict):
        tree = next(iter(tree.values()), Given({}, "an empty map", ""))
    return tree


def origins(tree: Tree) -> tuple[str, ...]:
    """Every place that had a part in the value, each once, in order."""
    if isinstance(tree, Given):
        return (tree.label(),)
    return tuple(dict.fromkeys(label for branch in tree.values() for label in origins(branch)))
