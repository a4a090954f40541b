"""From the keys of one origin to trees of values by section and field. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias, get_origin

from attrs import define, field, frozen

from triocollect.config import gym_keys, kinds
from triocollect.config.given import Given, GivenTwiceError, Tree, nest, spread, unite
from triocollect.config.literals import parse_literal
from triocollect.config.setting import PREFIX, Setting
from triocollect.config.settings import Count, ReplySize, Seconds
from triocollect.config.table import BY_KEY

Home: TypeAlias = tuple[str, ...]
_NUMBERS: Final = (Seconds, Count, ReplySize, kinds.Natural, kinds.ExitStatus)
_NAMED_BY_OTHERS: Final = {
    "ACK_FD",
    "CONFIG",
    "CONTROL_TOKEN",
    "DEBUG",
    "EFFECTS_DIR",
    "TOKENS_PER_S",
}


@frozen
class Origin:
    """One place that settings come from, as (key, value) in the order they stand there."""

    values: tuple[tuple[str, Given], ...]
    unknown: Literal["problem", "note"] = "problem"  # what becomes of a key that nobody knows


@define
class Intake:
    """What one origin said."""

    trees: dict[Home, Tree] = field(factory=dict)
    problems: list[str] = field(factory=list)
    notes: list[str] = field(factory=list)
    warnings: list[str] = field(factory=list)  # what was probably meant otherwise


def from_map(values: Mapping[str, object], place: str = "") -> Origin:
    """The settings of a file, or of a program's call."""
    return Origin(tuple((str(key), Given(value, str(key), place)) for key, value in values.items()))


def from_environment(environ: Mapping[str, str]) -> Origin:
    """`TRIOCOLLECT_<NAME>` of every setting; an empty variable counts as unset, a misspelt one is noted."""
    return Origin(
        tuple(
            (name.removeprefix(PREFIX).lower(), Given(text, name, "(environment)", text=True))
            for name, text in environ.items()
            if name.startswith(PREFIX) and text and name.removeprefix(PREFIX) not in _NAMED_BY_OTHERS
        ),
        unknown="note",
    )


def take_in(origin: Origin) -> Intake:
    """Sort the origin's values by section and field; collect what cannot be taken."""
    intake = Intake()
    for key, given in _opened(origin.values):
        root = key.partition(".")[0]
        try:
            if (refusal := gym_keys.refusal(root, given)) is not None:
                intake.problems.append(refusal)
            elif root in gym_keys.WITHOUT_EFFECT:
                intake.notes.append(f"{given.label()} has no effect: {gym_keys.WITHOUT_EFFECT[root]}")
            elif root == gym_keys.RESUME:
                _add(intake, BY_KEY["resume"], gym_keys.resume_mode(given), ())
            elif (found := _setting(key)) is not None:
                _add(intake, *_read(found[0], given, found[1]))
            elif root not in gym_keys.KEYS:
                near = _nearest(key)
                quiet = intake.warnings if near else intake.notes
                fate = intake.problems if origin.unknown == "problem" else quiet
                fate.append(f"{given.label()}: is no setting{near}")
        except (ValueError, GivenTwiceError) as fault:
            intake.problems.append(str(fault))
    return intake


def _opened(values: Iterable[tuple[str, Given]]) -> Iterator[tuple[str, Given]]:
    """Maps that stand for several settings (`skills: {path: …}`), taken apart."""
    for key, given in values:
        if isinstance(given.value, Mapping) and key not in BY_KEY and f"{key}.path" in BY_KEY:
            yield from ((f"{key}.{part}", given.inner(part)) for part in given.value)
        else:
            yield key, given


def _setting(key: str) -> tuple[Setting, tuple[str, ...]] | None:
    """The setting, and the path inside its map: `responses_create_params.metadata.x`."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        setting = BY_KEY.get(".".join(parts[:end]))
        if setting is not None:
            return setting, tuple(parts[end:])
    return None


def _read(setting: Setting, given: Given, path: tuple[str, ...]) -> tuple[Setting, Given, tuple[str, ...]]:
    """Text that spells a list, a map or nothing becomes one."""
    text = given.value if given.text and isinstance(given.value, str) else None
    if path and setting.kind not in kinds.MAPS:
        raise ValueError(f"{given.label()}: {setting.name} has no parts")
    if text is None:
        return setting, given, path
    value: object = text
    try:
        if get_origin(setting.kind) is tuple and not path:
            value = (
                parse_literal(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
            )
        elif setting.kind == kinds.Parameters or (setting.kind in kinds.MAPS and text.startswith("{")):
            value = parse_literal(text)
        elif setting.kind in _NUMBERS and setting.nullable and text.lower() in {"none", "null"}:
            value = None
    except ValueError as fault:
        raise ValueError(f"{given.label()}: {fault}") from None
    return setting, Given(value, given.spelled, given.place, text=value is text), path


def _add(intake: Intake, setting: Setting, given: Given, path: tuple[str, ...]) -> None:
    home, inside = setting.home[:2], (*setting.home[2:], *path)
    if inside and given.value is None and not path:
        return  # `agent_name: null` says nothing
    tree = nest(spread(given) if setting.kind in kinds.MAPS else given, inside)
    intake.trees[home] = unite(intake.trees[home], tree) if home in intake.trees else tree


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key, [*BY_KEY, *gym_keys.KEYS], 1, cutoff=0.7)
    return f"; did you mean {near[0]}?" if near else ""
