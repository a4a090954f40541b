"""5: no episode begins in an environment that is closed, on none of its workers once all have been."""

from collections.abc import Callable

from attrs import define

from fuzz.simulation.probe import Probe
from triocollect.protocol.ids import EpisodeId


@define
class Starts:
    """Asked whenever anything goes over the wire, as whatever begins goes there."""

    _holds: Callable[[int, object, str], None]
    _closed_with: frozenset[EpisodeId] | None = None  # under way when it was closed last; None while open
    _closing: int = 0

    def begin(self) -> None:
        """Another life."""
        self._closed_with = None

    def look(self, environment: Probe | None) -> None:
        """There may be none yet."""
        if environment is None or not environment.is_to_be_closed:
            self._closed_with = None
            return
        if environment.closing != self._closing:
            self._closed_with, self._closing = None, environment.closing
        if self._closed_with is None and not environment.is_shut:
            return  # the word is still on its way to a worker
        self._holds(5, environment.is_shut, "a worker is open among those that are closed")
        now = environment.under_way
        began = () if self._closed_with is None else now - self._closed_with
        self._holds(5, not began, f"{began} began while closed")
        self._closed_with = now
