"""Lays a case out, plays its runs against servers of its own, and compares."""

import io
import json
import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final, NamedTuple

from attrs import evolve, field, frozen

from tests.cases.checkpoints import compare_checkpoints, lay_out_checkpoints
from tests.cases.expect import Case, Grown, Run, Seen, Untouched
from tests.cases.layout import Names, our_gzip, our_input, our_records, our_settings, unpacked
from tests.cases.participant import PATIENCE_S, Participant, Received
from tests.cases.taking_part import TOKEN, Deployment
from triocollect.cli.app import run as triocollect

DATA: Final = Path(__file__).parent / "data"
REPOSITORY: Final = Path(__file__).parents[2]
OUTPUT, FAILURES, TORN = "out.jsonl", "out_failures.jsonl", "out_torn.jsonl"
_ONE_ROW: Final = b'{"id":"a","prompt":"p-a"}\n'  # for cases that are about the reply alone
_SHOWN: Final = ("--progress", "plain", "--json", "--disable-aggregation")
_NEW_WORLD: Final = ("unshare", "--pid", "--fork", "--mount-proc")
_ENDED: Final = {0, 3, 75}  # with a report


class CommandEnd(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


class FileLines:
    """A file in messages: `{file}` is its path, `{file.at[2]}` its second line with its byte offset."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path: Final = path
        offsets = [0]
        for line in content.split(b"\n"):
            offsets.append(offsets[-1] + len(line) + 1)
        self.at: Final = ["", *(f"{path}, line {n} (byte {at})" for n, at in enumerate(offsets, start=1))]

    def __str__(self) -> str:
        return str(self._path)


@frozen
class Scene:
    """A folder with a case's files as ours, and the server that its rows are sent to.

    With `checkpoints`, their directory, every run has fresh servers that take part in them instead.
    """

    data: Path
    folder: Path
    input: Path
    names: Names
    participant: Participant
    checkpoints: Path | None = None
    lasting: Deployment | None = None  # it is the same for every run
    ran: set[str] = field(factory=set)  # episodes that the server was asked for, by all runs so far

    def files(self) -> dict[str, bytes]:
        """Every file by its path in the folder."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in files}

    def in_checkpoints(self, files: dict[str, bytes]) -> dict[str, bytes]:
        """Those below the checkpoint directory, by their path in it."""
        if self.checkpoints is None:
            return {}
        prefix = f"{self.checkpoints.relative_to(self.folder).as_posix()}/"
        return {name.removeprefix(prefix): data for name, data in files.items() if name.startswith(prefix)}


def play(name: str, case: Case, root: Path) -> None:
    """All runs of a case. Raises AssertionError for whatever differs."""
    scenes: dict[str, Scene] = {}
    with ExitStack() as others:
        pids = {b"@OWN@": os.getpid(), b"@LIVE_SLEEP@": others.enter_context(_somebody_else())}
        for run in case.runs:
            if run.folder not in scenes:
                participant = others.enter_context(Participant())
                scene = lay_out(DATA / name, case, run, root / run.folder, participant)
                scene = _with_checkpoints(scene, case, pids)
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


def _with_checkpoints(scene: Scene, case: Case, pids: Mapping[bytes, int]) -> Scene:
    if case.checkpoints is None:
        return scene
    place = scene.folder / case.checkpoints
    rows = scene.input.read_bytes()
    lay_out_checkpoints(scene.data / case.checkpoints, place, scene.names, rows, pids)
    token = scene.folder.with_suffix(".token")
    token.touch(0o600)
    token.write_text(TOKEN)
    return evolve(scene, checkpoints=place)


def lay_out(data: Path, case: Case, run: Run, folder: Path, participant: Participant) -> Scene:
    """Write a case's files as ours into a new folder."""
    folder.mkdir(parents=True)
    neutral = {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}
    rows, output = neutral.get(run.input, _ONE_ROW), neutral.get(run.earlier)
    failures, settings = neutral.get("failures.jsonl"), neutral.get("settings.json")
    packed = run.input.endswith(".gz")
    names = Names(unpacked(rows) if packed else rows, output or b"")
    place = folder / ("input.jsonl.gz" if packed else "input.jsonl")
    place.write_bytes(our_gzip(rows) if packed else our_input(rows, with_ids=case.with_ids))
    if output is not None:
        (folder / OUTPUT).write_bytes(our_records(output, names))
    if failures is not None:
        (folder / FAILURES).write_bytes(our_records(failures, names))
    if settings is not None:
        (folder / "settings.json").write_bytes(our_settings(settings, folder))
    return Scene(data, folder, place, names, participant)


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
        with _peak_below(run.peak_below):
            ended = _ended(scene, run)
        requests = tuple(scene.participant.requests[came:])
    print(ended.stderr, ended.stdout)  # noqa: T201  # pytest shows it where a case fails
    _compare(scene, run, before, ended, requests)


def _answer(scene: Scene, run: Run, request: Received) -> bytes | None:
    letter = scene.names.say(request.episode[0], 0, 0)
    answer = run.answers.get(letter, run.answers.get("*"))
    return (scene.data / answer).read_bytes() if isinstance(answer, str) else answer


def _ended(scene: Scene, run: Run) -> CommandEnd:
    if run.rival is not None:
        return _with_rival(scene, run, run.rival)
    arguments = _arguments(scene, run)
    if not run.process:
        return _in_process(arguments, run.file_limit)
    with _process(arguments) as process:
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
        ended = _in_new_world(arguments, deployment) if run.pid_1 else _in_process(arguments, None)
        retired = [scene.names.say_episode(one.rollout_id, one.attempt) for one in deployment.retired]
        assert sorted(retired) == sorted(run.retired.split())
        return ended, tuple(deployment.requests)


def _in_new_world(arguments: list[str], deployment: Deployment) -> CommandEnd:
    with _process(arguments, _NEW_WORLD) as world:
        deployment.pid = lambda: _first_of(world.pid)
        stdout, stderr = world.communicate(timeout=PATIENCE_S)
    return CommandEnd(world.returncode, stdout, stderr)


def has_new_worlds() -> bool:
    """Whether we may make one, where a process is 1."""
    return not subprocess.run([*_NEW_WORLD, "true"], capture_output=True, check=False).returncode


def _first_of(world: int) -> int:
    """The process that is 1 there, as we know it."""
    return int(Path(f"/proc/{world}/task/{world}/children").read_text())


def _with_rival(scene: Scene, run: Run, rival: Run) -> CommandEnd:
    """The rival comes while the server holds the reply to the first row back."""
    participant = scene.participant
    participant.gate.clear()
    with _process(_arguments(scene, run)) as process:
        assert participant.arrived.wait(PATIENCE_S), "no row was sent"
        before = scene.files()
        _compare(scene, rival, before, _in_process(_arguments(scene, rival), None), ())
        participant.gate.set()
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return CommandEnd(process.returncode, stdout, stderr)


def _arguments(scene: Scene, run: Run) -> list[str]:
    files = ["-i", str(scene.input), "-o", str(scene.folder / OUTPUT)]
    if (settings := scene.folder / "settings.json").exists():
        files = ["--config", str(settings)]
    return ["run", *files, "--environment-url", scene.participant.url, *_SHOWN, *run.flags]


def _in_process(arguments: list[str], file_limit: int | None) -> CommandEnd:
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr), _file_limit(file_limit):
        exit_code = triocollect(arguments)
    return CommandEnd(exit_code, stdout.getvalue(), stderr.getvalue())


def _process(arguments: list[str], within: Sequence[str] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*within, sys.executable, "-m", "triocollect", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )


@contextmanager
def _file_limit(most: int | None) -> Iterator[None]:
    """A full disk, as the kernel plays it: the write that crosses the limit is short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def _peak_below(most: int | None) -> Iterator[None]:
    if most is None:
        yield
        return
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak} bytes of memory"


def _compare(
    scene: Scene, run: Run, before: dict[str, bytes], ended: CommandEnd, requests: tuple[Received, ...]
) -> None:
    assert ended.exit_code == run.exit_code
    assert "Traceback" not in ended.stderr
    places = {
        "output": FileLines(scene.folder / OUTPUT, before.get(OUTPUT, b"")),
        "failures": FileLines(scene.folder / FAILURES, before.get(FAILURES, b"")),
        "input": FileLines(scene.input, before[scene.input.name]),
        "folder": scene.folder,
    }
    for text in run.says:
        assert text.format_map(places) in ended.stderr
    _compare_report(run, ended)
    sent = [scene.names.say(*request.episode) for request in requests]
    assert sorted(sent) == sorted(run.sent.split())
    assert set(sent) & scene.ran == set(run.sent_before.split()), "an attempt was sent by two runs"
    scene.ran.update(sent)
    continued = [scene.names.say(*request.episode) for request in requests if request.is_continued]
    assert sorted(continued) == sorted(run.continued.split())
    lines, failures = _compare_disk(scene, run.disk, before)
    if scene.checkpoints is not None and run.checkpoints is not None:
        there = scene.in_checkpoints(scene.files())
        compare_checkpoints(scene.checkpoints, scene.in_checkpoints(before), there, run.checkpoints)
    if run.also is not None:
        run.also(Seen(before=before, after=scene.files(), requests=requests, lines=lines, failures=failures))


def _compare_report(run: Run, ended: CommandEnd) -> None:
    if run.exit_code not in _ENDED:
        assert not ended.stdout
        return
    report = json.loads(ended.stdout)
    assert report["expected"] == report["succeeded"] + report["failed"] + report["left"]
    assert {name: report[name] for name in run.counts} == run.counts


def _compare_disk(
    scene: Scene, disk: Untouched | Grown, before: dict[str, bytes]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The lines that output and sidecar gained."""
    after = scene.files()
    if isinstance(disk, Untouched):
        assert after == before
        return (), ()
    old = {} if disk.fresh else before
    torn = old.get(TORN, b"")
    grown = []
    for name, cut, gained in (
        (OUTPUT, disk.cut, disk.output),
        (FAILURES, disk.failures_cut, disk.failures),
    ):
        content = old.get(name, b"")
        whole = content[: len(content) - cut]
        torn += content[len(whole) :] + b"\n" if cut else b""
        assert after.get(name, b"").startswith(whole), f"{name} was rewritten"
        *lines, end = after.get(name, b"")[len(whole) :].split(b"\n")
        assert end == b"", f"{name} ends in the middle of a line"
        assert sorted(map(scene.names.say_record, lines)) == sorted(gained.split()), name
        grown.append(tuple(lines))
    assert after.get(TORN, b"") == torn
    assert after[scene.input.name] == before[scene.input.name]
    assert {name for name in set(after) - set(before) if not scene.in_checkpoints({name: b""})} <= {
        OUTPUT,
        FAILURES,
        TORN,
        "out_run.json",
        "out_materialized_inputs.jsonl",
    }
    return grown[0], grown[1]
