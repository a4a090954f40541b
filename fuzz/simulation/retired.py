"""7: no later attempt is sent before the one that brought no answer is retired by every participant.

2 and 16: when it is, nothing of it is at work, or kept.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from attrs import define, field

from fuzz.simulation.network import Request
from fuzz.simulation.probe import Probe
from fuzz.simulation.reading import identity_of


@define
class Retired:
    """Of servers as long as they live. An attempt that goes on from a checkpoint is what follows a cut."""

    _holds: Callable[[int, object, str], None]
    _waiting: dict[str, int] = field(factory=dict)  # the attempt of a rollout that nobody has answered
    _through: dict[str, dict[str, int]] = field(factory=lambda: defaultdict(dict))  # by host and rollout

    def begin(self, *, anew: bool) -> None:
        """Another life, with servers that have served, or with some that have nothing to retire."""
        if anew:
            self._waiting.clear()
            self._through.clear()

    def replies(self, request: Request, *, heard: bool) -> None:
        """An episode is answered."""
        rollout_id, attempt = identity_of(request.call)
        if heard and self._waiting.get(rollout_id) == attempt:
            del self._waiting[rollout_id]

    def succeeds(self, request: Request) -> None:
        """A retire."""
        through = self._through[request.host]
        for one in request.call["episodes"]:
            through[one["rollout_id"]] = max(one["attempt"], through.get(one["rollout_id"], -1))

    def check_freed(self, request: Request, probe: Probe) -> None:
        """Nothing is left of attempts that are retired, or that a restore has put another in place of."""
        call = request.call
        through = {one["rollout_id"]: one["attempt"] for one in call.get("episodes", ())}
        through |= {one["rollout_id"]: one["becomes"] - 1 for one in call.get("scope", ())}
        for numbers, what, found in (((16,), "keeps", probe.episodes), ((2, 7), "works at", probe.at_work)):
            left = sorted(one for one in found if one.attempt <= through.get(one.rollout_id, -1))
            for number in numbers:
                self._holds(number, not left, f"{request.host} {what} {left} after {request.kind}")

    def sends(self, rollout_id: str, attempt: int, participants: Mapping, *, continued: bool) -> None:
        """An attempt arrives."""
        before = self._waiting.get(rollout_id)
        if before is not None and before < attempt and not continued:
            hosts = {name.replace("_", "-") for name in participants}
            missing = sorted(one for one in hosts if self._through[one].get(rollout_id, -1) < before)
            told = f"{rollout_id}:{attempt} was sent, and {before} is not retired by {missing}"
            self._holds(7, not missing, told)
        self._waiting[rollout_id] = attempt
