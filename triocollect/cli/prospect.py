"""What a dry run tells: the settings with their origins, and what a run would do. Pure."""

from collections.abc import Iterator, Mapping

import attrs
import msgspec

from triocollect.config import settings
from triocollect.config.load import Resolved
from triocollect.config.table import SETTINGS
from triocollect.protocol.values import Json
from triocollect.reading.restart import Restart
from triocollect.report.wording import rows, several


class Told(msgspec.Struct, frozen=True):
    """A setting. `given`: where it came from; empty for a default, and for what another setting implies."""

    value: Json
    given: tuple[str, ...]
    default: bool


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """So many rows for one address, the base URL of which is None in the embedded deployment."""

    rows: int
    url: str | None
    environment_server: str | None
    agent: str | None

    def words(self) -> str:
        """`3 to http://h:1/run (agent a)`."""
        place = "the embedded deployment" if self.url is None else f"{self.url}/run"
        named = (("environment server", self.environment_server), ("agent", self.agent))
        names = ", ".join(f"{kind} {name}" for kind, name in named if name)
        return f"{self.rows} to {place}" + (f" ({names})" if names else "")


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that an earlier run had in flight: how many go on from a checkpoint, and how many start again."""

    checkpoint: str | None
    continued: int
    restarted: int


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do. `expected` = `done` + `given_up` + the rows of the `destinations`.

    `deletes`: files of an earlier run. `in_flight` is None where no checkpoint directory tells.
    """

    output: str
    expected: int
    done: int
    given_up: int
    resumed: bool
    deletes: tuple[str, ...]
    concurrency: int
    destinations: tuple[Destination, ...]
    in_flight: InFlight | None
    settings: Mapping[str, Told]
    notes: tuple[str, ...]

    def text(self) -> str:
        """For people: what was given, and what would happen."""
        return "\n".join([*_settings(self.settings), *_outlook(self)])


def settings_of(resolved: Resolved) -> dict[str, Told]:
    """Every setting of a run, by name."""
    found = dict[str, Told]()
    for setting in SETTINGS:
        section, name = setting.home[0], setting.home[1]
        holder: object = getattr(resolved.config, section)
        if setting.home == (section, name) and hasattr(holder, name):
            value: object = getattr(holder, name)
            given = resolved.origins.get(setting.name, ())
            found[setting.name] = Told(_plain(value), given, not given and value == _default(section, name))
    return found


def in_flight_of(restart: Restart | None) -> InFlight | None:
    """None where it cannot be told."""
    if restart is None or not restart.known:
        return None
    continued, restarted = len(restart.continues), len(restart.restarts)
    return InFlight(checkpoint=restart.checkpoint_id, continued=continued, restarted=restarted)


def _default(section: str, name: str) -> object:
    default: object = attrs.fields_dict(getattr(settings, f"{section.capitalize()}Config"))[name].default
    factory = getattr(default, "factory", None)
    return default if factory is None else factory()


def _plain(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, frozenset):
        return [_plain(part) for part in sorted(value)]
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return str(value)


def _settings(told_of: Mapping[str, Told]) -> Iterator[str]:
    yield "Settings:"
    for name, told in told_of.items():
        if not told.default:
            yield f"  {name} = {_said(told.value)}  ({', '.join(told.given) or 'implied'})"
    defaults = sum(told.default for told in told_of.values())
    yield f"  {several(defaults, 'other')} by default; --json tells them all"


def _said(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_said(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_said, value)) + "]"
    return str(value)


def _outlook(found: Prospect) -> Iterator[str]:
    yield from (f"note: {note}" for note in found.notes)
    if found.resumed:
        given_up = f"{found.given_up} not to be tried again"
        yield f"Would continue the earlier run: {rows(found.done)} done, {given_up}."
    elif found.deletes:
        yield f"Would delete what an earlier run left in {' and '.join(found.deletes)}."
    sent = sum(destination.rows for destination in found.destinations)
    yield f"Would send {rows(sent)}" + (f", {found.concurrency} at a time:" if sent else ".")
    yield from (f"  {destination.words()}" for destination in found.destinations)
    if (flying := found.in_flight) is not None and (flying.checkpoint or flying.restarted):
        source = "no checkpoint" if flying.checkpoint is None else f"checkpoint {flying.checkpoint}"
        yield (
            f"Of the rows in flight when last written down, {flying.continued} would go on from {source}, "
            f"{flying.restarted} would start from their input."
        )
        if flying.continued and any(one.url is not None for one in found.destinations):
            yield "That is so on servers that are started anew first: what has served is not restored into."
    yield f"Would write {found.output}. Nothing was sent, nothing was changed."
