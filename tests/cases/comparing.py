"""What a run has done, against what its case expects: words, requests, files and checkpoints."""

import json
from pathlib import Path
from typing import Final

from tests.cases.checkpoints import compare_checkpoints
from tests.cases.commands import CommandEnd
from tests.cases.expect import Grown, Run, Seen, Untouched
from tests.cases.participant import Received
from tests.cases.scene import FAILURES, OUTPUT, TORN, Scene

_ENDED: Final = {0, 3, 75}  # with a report


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


def compare(
    scene: Scene, run: Run, before: dict[str, bytes], ended: CommandEnd, requests: tuple[Received, ...]
) -> None:
    """Raises AssertionError for whatever differs."""
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
