"""How a server of ours becomes a participant of checkpoints, when its settings say so."""

from pathlib import Path
from typing import Annotated

import msgspec
from starlette.applications import Starlette

from triocollect.participant import Admission, ControlPlane, Hooks
from triocollect.participant.hooks import R


class CheckpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`token`: what the collector shows. `directory`: the checkpoint directory as this process sees it.

    `instance`: the process's name, unique among the servers of its kind.
    """

    token: Annotated[str, msgspec.Meta(min_length=1)]
    directory: str
    instance: str

    def own(self, what: str) -> Path:
        """The folder of this process for what it keeps besides checkpoints, in the checkpoint directory."""
        return Path(self.directory, what, self.instance)

    def __repr__(self) -> str:
        """The token is nobody's to read."""
        return f"CheckpointSettings(directory={self.directory!r}, instance={self.instance!r})"


def instance_of(checkpoint: CheckpointSettings | None, kind: str) -> str:
    """What a participant is called; one that takes no part needs no name of its own."""
    return kind if checkpoint is None else checkpoint.instance


def take_part(
    app: Starlette, hooks: Hooks[R], admission: Admission, checkpoint: CheckpointSettings | None
) -> None:
    """Put the control plane around the application; without settings it stays as it is.

    `app.state.attendance` says then whether a collector needs the process.
    """
    if checkpoint is not None:
        app.state.attendance = admission.attendance
        root = Path(checkpoint.directory)
        app.add_middleware(
            ControlPlane[R], hooks=hooks, admission=admission, token=checkpoint.token, root=root
        )
