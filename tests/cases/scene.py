"""A case's folder, as it is laid out before its first run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from tests.cases.checkpoints import lay_out_checkpoints
from tests.cases.expect import Case, Run
from tests.cases.layout import Names, our_gzip, our_input, our_records, our_settings, unpacked
from tests.cases.participant import Participant
from tests.cases.taking_part import TOKEN, Deployment

OUTPUT, FAILURES, TORN = "out.jsonl", "out_failures.jsonl", "out_torn.jsonl"
_ONE_ROW: Final = b'{"id":"a","prompt":"p-a"}\n'  # for cases that are about the reply alone


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


def with_checkpoints(scene: Scene, case: Case, pids: Mapping[bytes, int]) -> Scene:
    """And its checkpoint directory, where the case has one; `pids` stand for its placeholders."""
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
