"""Plays the runs of a case against servers of its own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from attrs import evolve

from tests.cases.commands import CommandEnd, in_new_world, in_process, peak_below, process_of
from tests.cases.comparing import compare
from tests.cases.expect import Case, Grown, Run
from tests.cases.participant import PATIENCE_S, Participant, Received
from tests.cases.scene import OUTPUT, Scene, lay_out, with_checkpoints
from tests.cases.taking_part import Deployment

DATA: Final = Path(__file__).parent / "data"
_SHOWN: Final = ("--progress", "plain", "--json", "--disable-aggregation")


def play(name: str, case: Case, root: Path) -> None:
    """All runs of a case. Raises AssertionError for whatever differs."""
    scenes: dict[str, Scene] = {}
    with ExitStack() as others:
        pids = {b"@OWN@": os.getpid(), b"@LIVE_SLEEP@": others.enter_context(_somebody_else())}
        for run in case.runs:
            if run.folder not in scenes:
                participant = others.enter_context(Participant())
                scene = lay_out(DATA / name, case, run, root / run.folder, participant)
                scene = with_checkpoints(scene, case, pids)
                if scene.checkpoints is not None and case.same_servers:
                    scene = evolve(scene, lasting=others.enter_context(Deployment(scene.checkpoints)))
                scenes[run.folder] = scene
            _play(scenes[run.folder], run)


@contextmanager
def _somebody_else() -> Iterator[int]:
    """A process that has nothing to do with us, and is there still at the end; its id."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            yield sleeper.pid
            assert sleeper.poll() is None
        finally:
            sleeper.kill()


def _play(scene: Scene, run: Run) -> None:
    if run.change is not None:
        run.change(scene.folder)
    if isinstance(run.disk, Grown) and run.disk.fresh:
        scene.ran.clear()
    before, came = scene.files(), len(scene.participant.requests)
    scene.participant.text = run.text
    scene.participant.answer = lambda request: _answer(scene, run, request)
    if scene.checkpoints is not None:
        ended, requests = _controlled(scene, scene.checkpoints, run)
    else:
        with peak_below(run.peak_below):
            ended = _ended(scene, run)
        requests = tuple(scene.participant.requests[came:])
    print(ended.stderr, ended.stdout)  # noqa: T201  # pytest shows it where a case fails
    compare(scene, run, before, ended, requests)


def _answer(scene: Scene, run: Run, request: Received) -> bytes | None:
    letter = scene.names.say(request.episode[0], 0, 0)
    answer = run.answers.get(letter, run.answers.get("*"))
    return (scene.data / answer).read_bytes() if isinstance(answer, str) else answer


def _ended(scene: Scene, run: Run) -> CommandEnd:
    if run.rival is not None:
        return _with_rival(scene, run, run.rival)
    arguments = _arguments(scene, run)
    if not run.process:
        return in_process(arguments, run.file_limit)
    with process_of(arguments) as process:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return CommandEnd(process.returncode, stdout, stderr)


def _controlled(scene: Scene, checkpoints: Path, run: Run) -> tuple[CommandEnd, tuple[Received, ...]]:
    with Deployment(checkpoints) if scene.lasting is None else nullcontext(scene.lasting) as deployment:
        deployment.begin(run.text, run.signal, len(run.sent.split()))
        if run.servers is not None:
            run.servers(deployment)
        arguments = [
            *("run", "-i", str(scene.input), "-o", str(scene.folder / OUTPUT), *_SHOWN, *run.flags),
            *("--environment-url", deployment.url, "--participant", f"model={deployment.model_url}"),
            *("--checkpoint-dir", str(checkpoints)),
            *("--control-token-file", str(scene.folder.with_suffix(".token"))),
        ]
        ended = in_new_world(arguments, deployment) if run.pid_1 else in_process(arguments, None)
        retired = [scene.names.say_episode(one.rollout_id, one.attempt) for one in deployment.retired]
        assert sorted(retired) == sorted(run.retired.split())
        return ended, tuple(deployment.requests)


def _with_rival(scene: Scene, run: Run, rival: Run) -> CommandEnd:
    """The rival comes while the server holds the reply to the first row back."""
    participant = scene.participant
    participant.gate.clear()
    with process_of(_arguments(scene, run)) as process:
        assert participant.arrived.wait(PATIENCE_S), "no row was sent"
        before = scene.files()
        compare(scene, rival, before, in_process(_arguments(scene, rival), None), ())
        participant.gate.set()
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return CommandEnd(process.returncode, stdout, stderr)


def _arguments(scene: Scene, run: Run) -> list[str]:
    files = ["-i", str(scene.input), "-o", str(scene.folder / OUTPUT)]
    if (settings := scene.folder / "settings.json").exists():
        files = ["--config", str(settings)]
    return ["run", *files, "--environment-url", scene.participant.url, *_SHOWN, *run.flags]
