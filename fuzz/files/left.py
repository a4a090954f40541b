"""What killed runs leave: whole files, made by the package itself, of rows, results and checkpoints."""

import contextlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from attrs import frozen

from fuzz.starting import Begun, begin
from tests.checkpoint.checkpoints import commit
from triocollect.checkpoint.names import new_checkpoint_id
from triocollect.config import Config, InputConfig, OutputConfig
from triocollect.config.settings import DRIFT_FIELDS, CheckpointConfig
from triocollect.protocol.ids import EpisodeId
from triocollect.protocol.manifests import CheckpointOutcome, Collection, Restarted

T = TypeVar("T")

CHECKPOINTS: Final = "checkpoints"
CREW: Final = (("environment", "env"), ("model", "policy"), ("agent", "agent"), ("resources", "counter"))

SETTLED: Final = {  # what tells of the moment and of this machine is always the same
    "created": "2026-01-02T03:04:05+00:00",
    "started": "2026-01-02T03:04:05+00:00",
    "host": os.uname().nodename,
    "pid": 4242,
}


def config_of(folder: Path, *, accept: bool = False) -> Config:
    """The command that began in this folder and begins again."""
    accepted = DRIFT_FIELDS if accept else ()
    return Config(
        input=InputConfig(path=folder / "in.jsonl"),
        output=OutputConfig(path=folder / "out.jsonl", accept_drift=frozenset(accepted)),
        checkpoint=CheckpointConfig(dir=folder / CHECKPOINTS),
    )


@frozen
class Left:
    """The files that a run left, by name in the folder; `rows`: how many it has, all with rollout 0."""

    files: dict[str, bytes]
    rows: int

    def named(self, ending: str) -> list[str]:
        """The files whose names end so."""
        return [name for name in self.files if name.endswith(ending)]

    def put(self, folder: Path) -> None:
        """Make the folder what it was."""
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def leave(folder: Path, seed: int) -> Left:
    """Live the run of this seed up to its kill, and take its files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    dice = random.Random(seed)
    with _dice_for_ids(dice):
        rows = _leave(folder, dice)
    for name in ("out_run.json", "checkpoints/collector.lock"):
        told = json.loads((folder / name).read_bytes())
        settled = told | {key: SETTLED[key] for key in SETTLED.keys() & told.keys()}
        (folder / name).write_bytes(msgspec.json.encode(settled) + b"\n")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return Left({path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}, rows)


def _leave(folder: Path, dice: random.Random) -> int:
    rows = dice.randrange(1, 8)
    lines = [_line(_row(dice, nth)) for nth in range(rows)]
    (folder / "in.jsonl").write_bytes(b"".join(lines))
    for _ in range(dice.choice((1, 2))):
        _live(begin(config_of(folder)), dice)
    return rows


@contextlib.contextmanager
def _dice_for_ids(dice: random.Random) -> Iterator[None]:
    """Random ids come from these dice: the same seed leaves the same bytes."""
    drawn, before = random.Random(dice.random()), random._urandom  # noqa: SLF001  # what `secrets` draws from
    random._urandom = drawn.randbytes  # noqa: SLF001  # see above
    try:
        yield
    finally:
        random._urandom = before  # noqa: SLF001  # see above


def _live(run: Begun, dice: random.Random) -> None:
    """Send some rows, end some, take a checkpoint or two, be killed."""
    survey, path = run.outset.survey, run.directory.path
    run.outset.record_directory()  # as a run does that sends rows: else its checkpoints are not this output's
    flying = []
    for row in list(survey.left(run.outset.read_rows())):
        tried = run.inherited.history.tried.get(row.rollout_id)
        episode = EpisodeId(row.rollout_id, 0 if tried is None else tried.highest + 1)
        if dice.random() < 0.85:
            run.log.append([episode])
            flying.append((row.key, episode))
    for turn in range(dice.choice((0, 1, 2, 2))):
        for key, episode in [one for one in flying if dice.random() < 0.3]:
            flying.remove((key, episode))
            fate = dice.random()
            if fate < 0.1:  # another runner's, which puts failures there too
                error = {"error": "it broke", **_stamps(key, episode.attempt)}
                run.outset.sinks.append_result(_line(error), episode)
            elif fate < 0.7:
                run.outset.sinks.append_result(_line(_result(dice, key, episode.attempt)), episode)
            else:
                run.outset.sinks.append_failure(_line(_failure(dice, key, episode.attempt)), episode)
        _checkpoint(run, dice, [episode for _, episode in flying])
        outcome = CheckpointOutcome(operation=turn + 1, checkpoint_id=f"c-{turn}", published=True)
        run.directory.append_outcome(outcome)
    (path / "collector.pid").write_bytes(b"4242\n")
    run.close()


def _checkpoint(run: Begun, dice: random.Random, flying: list[EpisodeId]) -> None:
    sequence = run.store.next_sequence()
    folder, checkpoint_id = run.store.begin(sequence), new_checkpoint_id(sequence)
    continued = [one for one in flying if dice.random() < 0.9]
    crew = CREW[: dice.randrange(1, 5)]
    parts = [commit(folder, checkpoint_id, kind, instance, continued) for kind, instance in crew]
    collection = Collection(
        checkpoint_id=checkpoint_id,
        sequence=sequence,
        epoch=run.directory.epoch,
        run=run.directory.run,
        created="2026-01-02T03:04:05+00:00",
        input_sha256=run.outset.rows.input_sha256,
        continued=tuple(continued),
        restarted=tuple(
            Restarted(one.rollout_id, one.attempt, reason="it was not at a boundary")
            for one in flying
            if one not in continued
        ),
        participants=tuple(parts),
        output=run.outset.run_file.run,
    )
    run.store.publish(collection)
    run.store.prune()


def _line(value: object) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _row(dice: random.Random, nth: int) -> dict[str, object]:
    text = dice.choice(("plain", "ünïcödé 😀", 'quote " and \\ and \u2028', "", "line\nbreak", "x" * 300))
    return {
        "responses_create_params": {"input": text, "temperature": dice.choice((0.5, 1e22, 0))},
        "agent_ref": {"name": dice.choice(("a", "b"))},
        "number": nth,
        "more": dice.choice((None, [1, [2, {"x": []}]], {"k": 10**30}, -0.0)),
    }


def _result(dice: random.Random, key: tuple[int, int], attempt: int) -> dict[str, object]:
    texts = ("4", "はい 漢字", 'a " b \\ c', "}\n{", "")
    record: dict[str, object] = {
        "reward": dice.choice((0.0, 1.0, 0.25, True)),
        "response": {"output": [{"text": dice.choice(texts)}] * dice.randrange(3)},
        **_stamps(key, attempt),
    }
    if dice.random() < 0.2:
        record["error"] = dice.choice((None, "told and survived"))
    return record


def _failure(dice: random.Random, key: tuple[int, int], attempt: int) -> dict[str, object]:
    record: dict[str, object] = {
        "_ng_failure_class": dice.choice(("judge_invalid", "timeout_exceeded", "agent_request_failed")),
        "_ng_failure_message": "no \u2029 luck",
        "elapsed_seconds": dice.choice((1.5, 900, None)),
        **_stamps(key, attempt),
    }
    if dice.random() < 0.3:
        record["_ng_failure_terminal"] = dice.choice((True, False))
    return record


def _stamps(key: tuple[int, int], attempt: int) -> dict[str, object]:
    stamps: dict[str, object] = {"_ng_task_index": key[0], "_ng_rollout_index": key[1]}
    return {**stamps, "_ng_attempt_index": attempt} if attempt else stamps
