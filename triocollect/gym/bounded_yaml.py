"""YAML text to plain values, in bounded time and memory. Pure.

Aliases let a few lines stand for more than any machine can hold. So a text is measured as if every alias were
written out, and has to be within the limit like that.
"""

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

import yaml

from triocollect.protocol.values import Json


class UnfitYamlError(ValueError):
    """The text is YAML, and not to be taken. Quotes nothing of it."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml may be missing
    """Safe, and a date stays the text that it is."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str | bytes, *, limit: int) -> Json:
    """The value of one document, which is at most `limit` characters long once its aliases are written out.

    Raises UnfitYamlError where it is longer or holds itself, and what PyYAML raises: YAMLError, ValueError
    and RecursionError.
    """
    loader = _Loader(text)
    with contextlib.ExitStack() as ending, _without_collecting():
        ending.callback(loader.dispose)
        node: yaml.Node | None = loader.get_single_node()
        if node is None:
            return None
        if _Lengths().of(node) > limit:
            raise UnfitYamlError(f"with its aliases written out it is longer than {limit} characters")
        value: Json = loader.construct_document(node)
        return value


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Looking for garbage among many new nodes, all in use, again and again would take most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Lengths:
    """How long nodes are with all aliases written out; each is looked at once."""

    def __init__(self) -> None:
        self._known: Final[dict[int, int | None]] = {}  # by id; None while it is being measured

    def of(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return len(node.value) + 1
        place = id(node)
        if place in self._known:
            known = self._known[place]
            if known is None:
                raise UnfitYamlError("an alias stands inside of what it stands for")
            return known
        self._known[place] = None
        if isinstance(node, yaml.MappingNode):
            length = sum(self.of(key) + self.of(value) for key, value in node.value)
        else:
            length = sum(map(self.of, node.value))
        self._known[place] = length = length + 1
        return length
