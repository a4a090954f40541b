"""7: no later attempt is sent, and no run over, before the one without an answer is retired by all.

2 and 16: when it is, nothing of it is at work, or kept.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from attrs import define, field

from fuzz.invariants import holds
from fuzz.simulation.probe import Probe
from fuzz.simulation.reading import identity_of
from fuzz.simulation.request import OK, Request
from fuzz.simulation.story import Life
from triocollect.protocol.ids import EpisodeId


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

    def replies(self, request: Request, environment: Probe, *, heard: bool) -> None:
        """An episode is answered; what it went on from is used up, unless nothing ran."""
        rollout_id, attempt = identity_of(request.call)
        used = request.status != OK or EpisodeId(rollout_id, attempt) not in environment.restored
        self._holds(16, used, f"{rollout_id}:{attempt} is answered, and could be begun from its record again")
        if heard and self._waiting.get(rollout_id) == attempt:
            del self._waiting[rollout_id]

    def _succeeds(self, request: Request) -> None:
        through = self._through[request.host]
        for one in request.call["episodes"]:
            through[one["rollout_id"]] = max(one["attempt"], through.get(one["rollout_id"], -1))

    def frees(self, request: Request, probe: Probe) -> None:
        """Nothing is left of what a retire names, or of what a restore has put others in place of."""
        call = request.call
        through = {one["rollout_id"]: one["attempt"] for one in call.get("episodes", ())}
        through |= {one["rollout_id"]: one["becomes"] - 1 for one in call.get("scope", ())}
        for numbers, what, found in (((16,), "keeps", probe.episodes), ((2, 7), "works at", probe.at_work)):
            left = sorted(one for one in found if one.attempt <= through.get(one.rollout_id, -1))
            for number in numbers:
                self._holds(number, not left, f"{request.host} {what} {left} after {request.kind}")
        if request.kind == "retire":
            self._succeeds(request)

    def sends(self, rollout_id: str, attempt: int, participants: Mapping, *, continued: bool) -> None:
        """An attempt arrives."""
        before = self._waiting.get(rollout_id)
        if before is not None and before < attempt and not continued:
            missing = self._missing(rollout_id, before, participants)
            told = f"{rollout_id}:{attempt} was sent, and {before} is not retired by {missing}"
            self._holds(7, not missing, told)
        self._waiting[rollout_id] = attempt
        for name, probe in participants.items():
            older = [one for one in probe.at_work if one.rollout_id == rollout_id and one.attempt < attempt]
            self._holds(2, not older, f"{rollout_id}:{attempt} came while {older} was at work in {name}")

    def ends(self, life: Life, participants: Collection[str], *, told: bool) -> None:
        """Of a life. What it gave up runs nowhere, unless it was `told` to end or somebody did not listen.

        With a limit it had not all rows, and gave up none of the others.
        """
        elsewhere = life.falls or life.disk or life.leap or any(one.door != "run" for one in life.faults)
        elsewhere = elsewhere or life.limit is not None
        for rollout_id, attempt in self._waiting.items():
            missing = self._missing(rollout_id, attempt, participants)
            words = f"{rollout_id}:{attempt} was given up, and is not retired by {missing}"
            holds(7, told or elsewhere or not missing, words)

    def _missing(self, rollout_id: str, attempt: int, participants: Collection[str]) -> list[str]:
        hosts = {name.replace("_", "-") for name in participants}
        return sorted(one for one in hosts if self._through[one].get(rollout_id, -1) < attempt)


def check_end(name: str, probe: Probe, sent: Collection[str] | None) -> None:
    """Of a run that has sent these rollouts; None where it had none to send, and nobody said goodbye."""
    probe.look()
    holds(8, not probe.is_closed, f"{name} is closed at the end")
    if sent is None:
        return
    holds(16, not probe.waits_for_goodbye, f"{name} has heard no goodbye")
    kept = probe.kept(sent)
    holds(16, not any(kept.values()), f"{name} keeps {kept}")
