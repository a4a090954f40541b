"""Cuts that a restore has filed, until the call that they belong to is made again. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, final

import msgspec

from triocollect.protocol.ids import EpisodeId


class FiledCut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a record keeps of the call that an episode had under way: what was asked, after which call.

    `key`: where its first `tokens` tokens are staged. `whole`: nothing is missing, the answer is staged.
    """

    request_sha256: str
    parent: str | None = None
    key: str
    tokens: int
    whole: bool = False


@final
class FiledCuts:
    """At most one cut for each episode. The call that asks the same after the same call takes it, once."""

    def __init__(self) -> None:
        self._of: Final[dict[EpisodeId, FiledCut]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, episode: EpisodeId) -> FiledCut | None:
        """What is filed of this episode and has not been taken."""
        return self._of.get(episode)

    def file(self, cuts: Mapping[EpisodeId, FiledCut]) -> None:
        """A restore brings these."""
        self._of.update(cuts)

    def take(self, episode: EpisodeId, parent: str | None, request_sha256: str) -> FiledCut | None:
        """The cut that this call goes on from; any other call leaves it where it is."""
        cut = self._of.get(episode)
        if cut is None or (cut.parent, cut.request_sha256) != (parent, request_sha256):
            return None
        return self._of.pop(episode)

    def drop(self, gone: Callable[[EpisodeId], bool]) -> None:
        """Forget those of these episodes."""
        for episode in [name for name in self._of if gone(name)]:
            del self._of[episode]
