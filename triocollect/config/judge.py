"""Reads one setting's value as its kind, strictly; every problem in it at once.

cattrs does the walking. Its own conversions are replaced: `int(3.9)` is 3 and `bool("false")` is True to it,
and null becomes the text "None"; here each of these is a problem.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, cast, get_origin

import cattrs
from cattrs.cols import homogenous_tuple_structure_factory, mapping_structure_factory
from cattrs.gen import make_dict_structure_fn

from triocollect.config import hooks, kinds, words
from triocollect.config.given import Given, Tree, plain
from triocollect.config.hooks import Hook
from triocollect.config.settings import Count, ReplySize, Seconds


def judge(tree: Tree, kind: object) -> tuple[object, tuple[str, ...]]:
    """(value, problems). With problems the value is None; each says where the part at fault came from."""
    as_text = isinstance(tree, Given) and tree.text and isinstance(tree.value, str)
    converter = _from_text if as_text else _from_data
    if kind is not Path and not words.is_text(plain(tree)):
        return None, (f"{_label(tree, ())}: holds bytes that are not UTF-8",)
    try:
        return converter.structure(plain(tree), cast("type[object]", kind)), ()
    except Exception as fault:  # noqa: BLE001  # cattrs wraps whatever a hook raises
        return None, tuple(f"{_label(tree, path)}: {text}" for path, text in _leaves(fault, ()))


def _leaves(fault: BaseException, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(fault, cattrs.IterableValidationError):
        inside, outside = fault.group_exceptions()
        for inner, note in inside:
            yield from _leaves(inner, (*path, note.index))
    elif isinstance(fault, cattrs.ClassValidationError):
        within, outside = fault.group_exceptions()
        for inner, at in within:
            missing = isinstance(inner, KeyError)
            yield from [((*path, at.name), "is missing")] if missing else _leaves(inner, (*path, at.name))
    elif isinstance(fault, hooks.PartsError):
        yield from (((*path, key), text) for key, text in fault.parts)
        return
    elif isinstance(fault, cattrs.ForbiddenExtraKeysError):
        yield path, f"has no part called {', '.join(sorted(fault.extra_fields))}"
        return
    else:
        yield path, str(fault)
        return
    for other in outside:
        yield from _leaves(other, path)


def _label(tree: Tree, path: tuple[str | int, ...]) -> str:
    """The name of the part at `path`, by the origin that gave this part."""
    steps = list(path)
    while isinstance(tree, dict):
        branches = list(tree.values())
        tree = tree[str(steps.pop(0))] if steps and str(steps[0]) in tree else branches[0]
    return tree.label("".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps))


def _converter(scalars: Mapping[object, Hook]) -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook_func(lambda kind: bool(kinds.choices(kind)), hooks.choice)
    for kind, hook in ({Path: hooks.path} | dict(scalars)).items():
        if isinstance(kind, type):  # a predicate would lose to what cattrs brings along for str and bool
            converter.register_structure_hook(kind, hook)
        else:
            converter.register_structure_hook_func(_is(kind), hook)
    return converter


def _has_origin(origin: object) -> Callable[[object], bool]:
    return lambda candidate: get_origin(candidate) == origin


def _is(kind: object) -> Callable[[object], bool]:
    return lambda candidate: candidate == kind


_from_text: Final = _converter(
    {
        bool: hooks.from_text(words.truth),
        str: hooks.from_text(hooks.some),
        Count: hooks.from_text(lambda text: words.within(words.whole_number(text), least=1)),
        kinds.Natural: hooks.from_text(lambda text: words.within(words.whole_number(text), least=0)),
        kinds.ExitStatus: hooks.from_text(
            lambda text: words.within(words.whole_number(text), least=1, most=255)
        ),
        kinds.Port: hooks.from_text(lambda text: words.within(words.whole_number(text), least=0, most=65535)),
        Seconds: hooks.from_text(words.seconds),
        ReplySize: hooks.from_text(lambda text: hooks.reply_size(words.size(text))),
        kinds.Url: hooks.from_text(hooks.url),
        kinds.HeadUrl: hooks.from_text(hooks.url),
        kinds.ScrapeAddress: hooks.from_text(words.host_and_port),
        kinds.Repeats: hooks.from_text(lambda text: hooks.repetition(words.whole_number(text))),
        kinds.NameMap: hooks.from_text(hooks.no_map),
        kinds.FanOut: hooks.from_text(hooks.no_map),
        kinds.Parameters: hooks.from_text(hooks.no_map),
    }
)

_from_data: Final = _converter(
    {
        bool: hooks.exactly(bool, "true or false"),
        str: hooks.exactly(str, "text", hooks.some),
        Count: hooks.exactly(int, "a whole number", lambda number: words.within(number, least=1)),
        kinds.Repetition: hooks.exactly(int, "a whole number", hooks.repetition),
        kinds.Natural: hooks.exactly(int, "a whole number", lambda number: words.within(number, least=0)),
        kinds.ExitStatus: hooks.exactly(int, "a whole number", lambda n: words.within(n, least=1, most=255)),
        Seconds: hooks.number_or(
            lambda text: words.seconds(text, unit_required=True), lambda n: words.positive(float(n), n)
        ),
        ReplySize: hooks.number_or(
            lambda text: hooks.reply_size(words.size(text, unit_required=True)), hooks.reply_size
        ),
        kinds.Url: hooks.exactly(str, "a URL as text", hooks.url),
        kinds.HeadUrl: hooks.head_url,
        kinds.ScrapeAddress: hooks.exactly(str, "HOST:PORT as text", words.host_and_port),
        kinds.Parameters: hooks.parameters,
    }
)


def _repeats(value: object, _: object) -> object:
    kind: object = dict[str, kinds.Repetition] if isinstance(value, Mapping) else kinds.Repetition
    return _from_data.structure(value, cast("type[object]", kind))


def _list(value: object, kind: type[tuple[object, ...]]) -> object:
    hooks.need_list(value)
    return homogenous_tuple_structure_factory(kind, _from_data)(value, kind)


def _map(value: object, kind: type[Mapping[str, object]]) -> object:
    hooks.need_map(value)
    read = mapping_structure_factory(kind, _from_data)
    return read(cast("Mapping[str, object]", value), kind)


_participant_parts: Final = make_dict_structure_fn(
    kinds.Participant, _from_data, _cattrs_forbid_extra_keys=True
)


def _participant(value: object, kind: object) -> object:
    if isinstance(value, Mapping):
        return _participant_parts(value, kind)
    return hooks.participant("=".join(value) if isinstance(value, tuple) else value)


_from_data.register_structure_hook_func(_has_origin(tuple), _list)
_from_data.register_structure_hook_func(_has_origin(dict), _map)
_from_data.register_structure_hook_func(_is(kinds.Repeats), _repeats)
_from_data.register_structure_hook_func(_is(kinds.Participant), _participant)
_from_data.register_structure_hook_func(_is(kinds.Peer), hooks.peer)
