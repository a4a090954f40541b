"""4, 10, 11 and 13 of what is kept of calls under way: staged whole, kept while it is named, made once."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import define, field

from fuzz.simulation.reading import bytes_in, latest_collection, lines_in, records_in

_LENGTHS = {1, 4, 8}  # of what the model says: a tool call, "The value is 12.", that it is at a loss


@define
class Generated:
    """Over all lives. `honest`: the worker cuts when it is asked to, and says what it did."""

    _root: Path
    _effects: Path
    _honest: bool
    _holds: Callable[[int, object, str], None]
    cuts: int = 0  # that checkpoints kept
    went_on: int = 0  # calls
    _origins: dict[str, dict] = field(factory=dict)  # what an attempt goes on from, by capture key
    _stopped: dict[str, dict] = field(factory=dict)  # what a stop kept of an attempt
    _read: int = 0  # lines of the worker's account

    def restored(self, place: Path, scope: Iterable[dict]) -> None:
        """A checkpoint is installed."""
        states = records_in(place / "model" / "policy_model")
        for one in scope:
            key = _key(one["rollout_id"], one["becomes"])
            self._origins[key] = states.get((one["rollout_id"], one["attempt"]), {"rows": []})

    def publishes(self, *, calm: bool, stops: bool) -> None:
        """LATEST has moved."""
        folder, collection = latest_collection(self._root)
        states = records_in(folder / "participants" / "model" / "policy_model")
        for one in collection["continued"]:
            state = states.get((one["rollout_id"], one["attempt"]), {"rows": []})
            key = _key(one["rollout_id"], one["attempt"])
            cut, before = state.get("cut"), self._origins.get(key, {"rows": []})
            if cut is not None:
                self.cuts += 1
                named = cut["key"].partition(":")[0] in _named(folder / "collection.json")
                self._holds(10, named, f"{key} is kept with {cut}, and the checkpoint names no such pack")
                self._check_staged(key, cut, state["rows"])
                if stops:
                    self._stopped[key] = cut
            elif "cut" in before and len(before["rows"]) == len(state["rows"]):
                self._holds(11, not calm, f"{key} stands where it began, and nothing is kept of its call")
        self.keeps()

    def _check_staged(self, key: str, cut: dict, rows: list[dict]) -> None:
        pack, _, number = cut["key"].partition(":")
        path = self._root / "staging" / f"{pack}.jsonl"
        lines = bytes_in(path).splitlines()
        if int(number) >= len(lines):
            self._holds(10, condition=False, what=f"{key} is kept with {cut}, which is staged nowhere")
            return
        staged = json.loads(lines[int(number)])
        self._holds(10, staged["tokens"] == cut["tokens"], f"{key} is kept with {cut}, staged is {staged}")
        known = {None, *(row["call_id"] for row in rows)}
        self._holds(13, cut.get("parent") in known, f"{key} is kept with a call after none of {rows}")
        if "response" not in staged:
            ends = {len(staged["text"].split()), len(staged["logprobs"]), staged["tokens"]}
            self._holds(13, len(ends) == 1, f"{key}: what is staged ends at different tokens: {staged}")

    def keeps(self) -> None:
        """Whatever a checkpoint names that is there is there."""
        for path in self._root.glob("ckpt-*/collection.json"):
            for pack in _named(path):
                staged = self._root / "staging" / f"{pack}.jsonl"
                whole = staged.exists() and hashlib.sha256(staged.read_bytes()).hexdigest() == pack
                self._holds(10, whole, f"{path.parent.name} names {pack}, which is gone or changed")

    def is_pruned(self) -> None:
        """Nothing is staged that no checkpoint names, where all can be read."""
        paths = [*self._root.glob("ckpt-*/collection.json")]
        if not all(map(_is_read, paths)):
            return
        named = {pack for path in paths for pack in _named(path)}
        there = {path.stem for path in self._root.glob("staging/*.jsonl")}
        self._holds(4, there <= named, f"{there - named} are staged, and no checkpoint names them")

    def end(self, *, calm: bool) -> None:
        """Of a life: what the worker has written down in it."""
        lines = lines_in(self._effects / "inference.jsonl")
        met = set[str]()
        for line in lines[self._read :]:
            key, at = line["capture_key"], line.get("continued_at", 0)
            cut = self._origins.get(key, {}).get("cut")
            told = f"{line} goes on from {cut}"
            self.went_on += at > 0
            self._holds(11, at in {0, 0 if cut is None or cut.get("whole") else cut["tokens"]}, told)
            if calm and key not in met and cut is not None and not cut.get("whole"):
                self._holds(11, at == cut["tokens"], f"tokens that were kept are made again: {told}")
            if line["finished"]:
                made = at + line["output_tokens"]
                self._holds(11, made in _LENGTHS, f"{made} tokens were made of an answer: {told}")
            elif self._honest and key in self._stopped and not self._stopped[key].get("whole"):
                made, kept = at + line["output_tokens"], self._stopped[key]["tokens"]
                self._holds(11, made == kept, f"{made} tokens were made, and the stop kept {kept}: {line}")
            met.add(key)
        self._read = len(lines)


def _named(path: Path) -> Iterable[str]:
    if _is_read(path):
        for ref in json.loads(path.read_bytes())["participants"]:
            yield from ref.get("kept", ())


def _is_read(path: Path) -> bool:
    """One that was harmed names nothing."""
    try:
        return "participants" in json.loads(path.read_bytes())
    except ValueError:
        return False


def _key(rollout_id: str, attempt: int) -> str:
    return rollout_id if not attempt else f"{rollout_id}-a{attempt}"
