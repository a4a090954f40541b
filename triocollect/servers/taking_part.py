"""How a server of ours becomes a participant of checkpoints, when its settings say so."""

from pathlib import Path
from typing import Annotated

import msgspec
from starlette.applications import Starlette

from triocollect.participant import Admission, ControlPlane, Hooks
from triocollect.participant.hooks import R


class WorkerNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which one a process is, from 1, of so many behind one port."""

    number: int
    of: int


class CheckpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`token`: what the collector shows. `directory`: the checkpoint directory as this process sees it.

    `instance`: the server's name, unique among those of its kind. `worker`: which one this process is of
    several, whose coordinator answers the collector; None: it is the only one.
    """

    token: Annotated[str, msgspec.Meta(min_length=1)]
    directory: str
    instance: str
    worker: WorkerNumber | None = None

    def own(self, what: str) -> Path:
        """The folder for what the server keeps besides checkpoints, in the checkpoint directory.

        One for all its workers, of which there may be more or fewer tomorrow.
        """
        return Path(self.directory, what, self.instance)

    def __repr__(self) -> str:
        """The token is nobody's to read."""
        where = f"directory={self.directory!r}, instance={self.instance!r}, worker={self.worker!r}"
        return f"CheckpointSettings({where})"


def instance_of(checkpoint: CheckpointSettings | None, kind: str) -> str:
    """What a participant is called; one that takes no part needs no name of its own."""
    return kind if checkpoint is None else checkpoint.instance


def take_part(
    app: Starlette, hooks: Hooks[R], admission: Admission, checkpoint: CheckpointSettings | None
) -> None:
    """Put the control plane around the application; without settings it stays as it is.

    `app.state` says then what takes part (`hooks`, `admission`), and whether a collector needs the process
    (`attendance`). The control plane of one worker of several is its coordinator's.
    """
    app.state.hooks, app.state.admission = hooks, admission
    if checkpoint is not None and checkpoint.worker is None:
        app.state.attendance = admission.attendance
        root = Path(checkpoint.directory)
        app.add_middleware(
            ControlPlane[R], hooks=hooks, admission=admission, token=checkpoint.token, root=root
        )
