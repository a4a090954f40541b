"""How often each row is repeated: one number for all, or one by name. Pure."""

from collections.abc import Mapping
from typing import Final

from triocollect.config.settings import Count
from triocollect.errors import UsageError

_DEFAULT: Final = "_default"


class Repeats:
    """`num_repeats`. By name, the agent that gets the row counts before the name the data routes by."""

    def __init__(self, num_repeats: Count | Mapping[str, Count]) -> None:
        self._by_name: Final = num_repeats if isinstance(num_repeats, Mapping) else {}
        self._fixed: Final = None if isinstance(num_repeats, Mapping) else num_repeats
        self._unused: Final = set(self._by_name) - {_DEFAULT}

    def of(self, agent: str | None, basis: str | None) -> int:
        """For a row of this agent that routes by this name. Raises UsageError where no entry fits."""
        if self._fixed is not None:
            return self._fixed
        names = [name for name in dict.fromkeys((agent, basis)) if name is not None]
        self._unused.difference_update(names)
        for name in (*names, _DEFAULT):
            if name in self._by_name:
                return self._by_name[name]
        raise UsageError(
            f"num_repeats has no entry for {' / '.join(names)!r} and no '_default'; "
            f"it lists {sorted(self._by_name)}"
        )

    @property
    def unused(self) -> list[str]:
        """Names that no row had, once all rows were seen."""
        return sorted(self._unused)
