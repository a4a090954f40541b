"""What was played, by the accounts that environments and the worker wrote: effects, states, calls."""

from collections import Counter, defaultdict
from pathlib import Path

from attrs import define, field, frozen

from fuzz.invariants import all_hold, broken, holds
from fuzz.simulation.reading import lines_in, records_in
from fuzz.simulation.story import steps_of

_REPORT = 4  # tokens of the last call's answer, "The value is 12."; a tool call is one
_VERIFY = 3  # the step of the environment with which a rollout's calls are all made


@frozen
class Origin:
    """What a continued attempt begins from; a `state` of None is that before the seed."""

    state: dict | None
    calls: int


@define
class Played:
    """Over all lives. A rollout takes so many `changes`, and two calls more: to look, and to report."""

    changes: int
    mixed: bool
    origins: dict[tuple[str, int], Origin] = field(factory=dict)  # by the attempt that continues
    delivered: set[bytes] = field(factory=set)  # names of policy calls
    generated: set[bytes] = field(factory=set)  # likewise, that the worker was asked for
    handed_over: Counter[str] = field(factory=Counter)  # answers that an earlier attempt never got

    @property
    def calls(self) -> int:
        """Those of a rollout that nobody interrupts."""
        return self.changes + 2

    def restored(self, place: Path, scope: list[dict]) -> None:
        """A checkpoint is installed: what each attempt to come begins from."""
        states = records_in(place / "resources" / "counter")
        boundaries = records_in(place / "environment" / "environment")
        sessions = records_in(place / "agent" / "agent")
        for one in scope:
            episode = one["rollout_id"], one["attempt"]
            boundary = boundaries[episode]
            captured = not (self.mixed and int(one["rollout_id"].partition("-")[0]) % 2)
            needs_none = not boundary["step"] or boundary["record"] is not None
            holds(12, captured or needs_none, f"{episode} is continued, and nobody captured it")
            self.origins[one["rollout_id"], one["becomes"]] = Origin(
                self._state(episode, boundary, states), self._known(boundary, sessions.get(episode))
            )

    def _state(self, episode, boundary, states) -> dict | None:
        if not boundary["step"]:
            return None
        if episode in states:
            return states[episode]
        if (record := boundary["record"]) is None:  # neither open nor judged and closed
            broken(12, f"{episode} is continued without its session")
        return {"seed": None, "effects": record["effects"], "value": record["final_value"]}

    def _known(self, boundary, session) -> int:
        if boundary["step"] >= _VERIFY:
            return self.calls
        return 0 if session is None else session["steps"]

    def delivers(self, call: bytes | None, *, to: str) -> None:
        """A policy call's answer is on its way to an agent that listens, for that attempt of a rollout."""
        holds(11, call is None or call not in self.delivered, f"the answer to {call} came twice")
        if call is not None:
            self.delivered.add(call)
            self.handed_over[to] += call not in self.generated

    def check(self, effects: Path, results: list[dict]) -> None:
        """12, 13 and 11, of all that was played by now."""
        lines = defaultdict(list)
        for line in lines_in(effects / "counter.jsonl"):
            lines[line["rollout_id"], line["attempt"]].append(line)
        calls = Counter(line["capture_key"] for line in lines_in(effects / "inference.jsonl"))
        for episode, played in lines.items():
            self._check_played(episode, played)
            self._check_calls(episode, calls)
        for record in results:
            self._check_result(record, lines, calls)

    def _check_played(self, episode, played) -> None:
        origin = self.origins.get(episode)
        state = None if origin is None else origin.state
        for line in played:
            after = line["state"]
            if line["effect"] == "seed":
                numbers = (12,) if origin is not None else (2, 12)  # the same attempt has begun twice
                all_hold(numbers, state is None, f"{episode} was seeded twice: {state}, {after}")
            elif state is None:
                broken(12, f"{episode} went on from nothing: {after}")
            else:
                same = after["seed"] == state["seed"] and after["effects"] == state["effects"] + 1
                holds(12, same, f"{episode}: {state} became {after}")
                amount = line["arguments"]["amount"]
                holds(12, after["value"] == state["value"] + amount, f"{episode}: {state} became {after}")
            state = after

    def _check_calls(self, episode, calls) -> None:
        made, known = calls[_key(episode)], self._calls_before(episode)
        told = f"{episode} knew {known} calls and made {made}, of {self.calls}"
        holds(11, known + made <= self.calls, told)

    def _check_result(self, record, lines, calls) -> None:
        task, rollout = record["_ng_task_index"], record["_ng_rollout_index"]
        episode = f"{task}-{rollout}", record.get("_ng_attempt_index", 0)
        played, origin = lines.get(episode), self.origins.get(episode)
        last = played[-1]["state"] if played else None if origin is None else origin.state
        if last is None:
            broken(12, f"{episode} has a result and no effects")
        holds(12, last["effects"] == record["effects"] == self.changes, f"effects are missing: {record}")
        change = record["final_value"] - record["start_value"]
        holds(13, change == sum(steps_of(task, self.changes)), f"{episode} changed by {change}: {record}")
        holds(13, last["value"] == record["final_value"], f"{last} is told as {record['final_value']}")
        usage = record["response"]["usage"]
        told = f"{usage} is told of the {self.calls} calls of {episode}"
        holds(13, usage["output_tokens"] == self.calls - 1 + _REPORT, told)
        holds(13, usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"], told)
        judged = record["reward"] == (record["reported_value"] == str(record["final_value"]))
        holds(13, judged, f"the reward of {episode} is another than that of what it reports: {record}")
        made = calls[_key(episode)] + self._calls_before(episode) + self.handed_over[_key(episode)]
        holds(11, made == self.calls, f"{episode} has a result of {made} calls, not {self.calls}")

    def _calls_before(self, episode) -> int:
        origin = self.origins.get(episode)
        return 0 if origin is None else origin.calls


def _key(episode) -> str:
    """As the model is told it."""
    rollout_id, attempt = episode
    return rollout_id if not attempt else f"{rollout_id}-a{attempt}"
