"""Whose work a request is, by which it finds the worker that keeps the episode. Pure.

Whatever cannot be read here belongs to nobody: the application says what is wrong with it.
"""

from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final, TypeAlias

from triocollect.protocol.identity import episode_in
from triocollect.protocol.ids import EpisodeId, rollout_id_fault
from triocollect.protocol.values import NOT_JSON
from triocollect.servers.environment.run_requests import episode_of_run
from triocollect.servers.resources.row_names import episode_of_row
from triocollect.servers.resources.sessions import rollout_of_cookie

Whose: TypeAlias = Callable[[str, Mapping[str, str], bytes], EpisodeId | None]  # path, headers, body

_ON_THE_WAY_TO_THE_MODEL: Final = "/ng-rollout/"


def whose(kind: str) -> Whose:
    """The reader for servers of this kind."""
    return _READERS[kind]


def _of_run(path: str, _headers: Mapping[str, str], body: bytes) -> EpisodeId | None:
    try:
        return episode_of_run(body) if path == "/run" else None
    except (ValueError, *NOT_JSON):
        return None


def _of_path_or_headers(path: str, headers: Mapping[str, str], _body: bytes) -> EpisodeId | None:
    try:
        if path.startswith(_ON_THE_WAY_TO_THE_MODEL):
            return EpisodeId.parse(path.split("/")[2])
        return episode_in(headers)
    except ValueError:
        return None


def _of_session(path: str, headers: Mapping[str, str], body: bytes) -> EpisodeId | None:
    """A caller that names no episode in its headers seeds with the row, and shows the cookie from then on."""
    try:
        if (named := episode_in(headers)) is not None:
            return named
        if path == "/seed_session":
            return episode_of_row(body)
        cookies = SimpleCookie(headers.get("cookie", ""))
    except (ValueError, CookieError, *NOT_JSON):
        return None
    rollouts = (rollout_of_cookie(cookie.value) for cookie in cookies.values())
    rollout_id = next((one for one in rollouts if one and rollout_id_fault(one) is None), None)
    return None if rollout_id is None else EpisodeId(rollout_id)


_READERS: Final[Mapping[str, Whose]] = {
    "environment": _of_run,
    "agent": _of_path_or_headers,
    "model": _of_path_or_headers,
    "resources": _of_session,
}
