"""Flags that may stand alone: `--resume` means `--resume must`, a switch means true. Pure."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from triocollect.config.kinds import choices
from triocollect.config.setting import Setting
from triocollect.config.table import SETTINGS

_TRUTHS: Final = ("true", "false")


def spell_out(tokens: Sequence[str]) -> list[str]:
    """The command line with a value for every such flag: the word that follows, where it can be one.

    A command whose arguments are overrides takes no other word, so there it is meant as the value, if a wrong
    one.
    """
    rest, spelled = deque(tokens), list[str]()
    alone = bool(tokens) and tokens[0] in {"run", "materialize"}
    while rest:
        token = rest.popleft()
        if token in _BARE:
            value, words = _BARE[token]
            its_own = bool(rest) and (rest[0] in words or (alone and _is_bare_word(rest[0])))
            spelled.append(f"{token}={rest.popleft() if its_own else value}")
        else:
            spelled.append(token)
    return spelled


def _is_bare_word(token: str) -> bool:
    return token.isidentifier()


def flags(setting: Setting) -> tuple[str, ...]:
    """Every spelling of a setting as a flag: its own, and that of each of Gym's keys for it."""
    others = ("--" + key.replace("_", "-") for key in setting.gym if "." not in key)
    return tuple(dict.fromkeys((*filter(None, (setting.flag, setting.short)), *others)))


_BARE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    flag: (setting.bare, choices(setting.kind) or _TRUTHS)
    for setting in SETTINGS
    if setting.bare is not None
    for flag in flags(setting)
} | {"--resume-from-cache": ("true", _TRUTHS)}
