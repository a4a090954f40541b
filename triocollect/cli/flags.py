"""The flags of `run` and `materialize`, made of the table, and their way into the settings.

Every value stays text here: what a number is, or a duration, is decided in one place for all origins.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias, get_origin

import attrs
from cyclopts import Group, Parameter

from triocollect.cli import say
from triocollect.config import settings
from triocollect.config.files import read_settings
from triocollect.config.given import Given
from triocollect.config.gym_keys import RESUME
from triocollect.config.intake import Origin, from_environment, from_map
from triocollect.config.load import Resolved, resolve
from triocollect.config.setting import PREFIX, Setting
from triocollect.config.table import GROUPS, INPUT, SETTINGS
from triocollect.gym.overrides import parse_override

_PANELS: Final = {title: Group(title, sort_key=place) for place, title in enumerate(GROUPS)}
Overrides: TypeAlias = Annotated[str, Parameter(help="Gym's own: +key=value, ++key=value, key=value.")]
_HERE: Final = "(command line)"
_MATERIALIZING: Final = {
    *("config", "dry_run", "json", "output", "overwrite", "wait_for_lock", "head_server"),
    *(setting.name for setting in SETTINGS if setting.group == INPUT),
}
_SECRETS: Final = ("policy_api_key", "model_api_key", "control_token")  # taken only to be refused unprinted


class _Flag(NamedTuple):
    key: str  # of a setting, or Gym's
    kind: object
    parameter: Parameter

    @property
    def spelled(self) -> str:
        """Its long form."""
        return next(iter(self.parameter.name or ()))


def _flags() -> Iterator[_Flag]:
    """All of them, as `run` shows them."""
    about = "Settings file (.toml, .yaml, .json) with our names or Gym's."
    yield _Flag("config", str, Parameter(name="--config", help=about, group=_PANELS[INPUT], metavar="FILE"))
    for setting in SETTINGS:
        yield _Flag(setting.name, _kind(setting), _parameter(setting))
        for key in setting.gym:
            yield _Flag(key, _kind(setting), _unseen(key))
    for key in (RESUME, *_SECRETS):
        yield _Flag(key, str, _unseen(key))
    about = "Say what would be sent where; send nothing, change nothing."
    yield _Flag(
        "dry_run", bool, Parameter(name="--dry-run", help=about, group=_PANELS[GROUPS[-1]], negative="")
    )


def _attribute(key: str) -> str:
    return key.replace(".", "_")


def _kind(setting: Setting) -> object:
    return tuple[str, ...] if get_origin(setting.kind) is tuple else str


def _parameter(setting: Setting) -> Parameter:
    """The flag in --help; one that the table gives no panel works unseen."""
    default = _default(setting)
    return Parameter(
        name=[name for name in (setting.flag, setting.short) if name],
        help=setting.help,
        group=_PANELS.get(setting.group),
        show=bool(setting.group),
        show_default=False if default is None else lambda _: default,
        metavar=setting.metavar,
        negative="",
    )


def _unseen(key: str) -> Parameter:
    """Gym's own name as a flag."""
    return Parameter(name="--" + key.replace("_", "-").replace(".", "-"), show=False, negative="")


def _default(setting: Setting) -> str | None:
    """The default in words; None where there is nothing to say."""
    section, name = setting.home[0].capitalize() + "Config", setting.home[1]
    fields = attrs.fields_dict(getattr(settings, section))
    value: object = fields[name].default if name in fields else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if setting.kind == settings.ReplySize:
        return f"{int(value) >> 20}MiB"
    return f"{value:g}s" if isinstance(value, float) else str(value)


def _unseen_by_materialize(flag: _Flag) -> _Flag:
    """It takes the whole command of a run, and shows what changes the rows that it writes."""
    if flag.key in _MATERIALIZING:
        return flag
    return flag._replace(parameter=Parameter.combine(flag.parameter, Parameter(show=False)))


_FLAGS: Final = tuple(_flags())

if TYPE_CHECKING:

    class Flags:
        """One attribute per flag: its text, or None where it was not given."""

        config: str | None
        dry_run: bool | None

    MaterializeFlags = Flags
else:

    def _as_class(name: str, flags: Iterable[_Flag]) -> type:
        fields = {
            _attribute(flag.key): attrs.field(default=None, type=Annotated[flag.kind | None, flag.parameter])
            for flag in flags
        }
        return Parameter(name="*")(attrs.make_class(name, fields, kw_only=True))

    Flags = _as_class("Flags", _FLAGS)
    MaterializeFlags = _as_class("MaterializeFlags", map(_unseen_by_materialize, _FLAGS))


def settle(
    flags: Flags | None, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> Resolved:
    """All settings: command line over environment over file over default. Raises ConfigError."""
    file = (flags and flags.config) or environ.get(PREFIX + "CONFIG")
    values = [] if flags is None else list(_given(flags))
    faults = list[str]()
    for token in overrides:
        try:
            values.append(_overriding(token))
        except ValueError as fault:
            faults.append(str(fault))
    sources = [from_environment(environ), Origin(tuple(values), unknown="note")]
    if file:
        sources.insert(0, from_map(read_settings(Path(file)), f"in {file}"))
    return resolve(sources, faults)


def tell_beside(resolved: Resolved) -> None:
    """Say what has no effect, on standard error."""
    for note in resolved.notes:
        say.err(f"note: {note}")
    for warning in resolved.warnings:
        say.err(f"Warning: {warning}")


def _given(flags: Flags) -> Iterator[tuple[str, Given]]:
    for flag in _FLAGS:
        value: object = getattr(flags, _attribute(flag.key))
        if value is not None and flag.key not in {"config", "dry_run"}:
            text = ",".join(value) if isinstance(value, tuple) else value
            yield flag.key, Given(text, flag.spelled, _HERE, text=True)


def _overriding(token: str) -> tuple[str, Given]:
    spelled, key, value = parse_override(token)
    return key, Given(value, spelled, _HERE, text=isinstance(value, str))
