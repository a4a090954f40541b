"""Make a server a participant of checkpoints: `ControlPlane(app, hooks, admission, token=…, root=…)`."""

from triocollect.participant.admission import Admission, Work
from triocollect.participant.base import Participant
from triocollect.participant.hooks import Hooks
from triocollect.participant.plane import ControlPlane

__all__ = ["Admission", "ControlPlane", "Hooks", "Participant", "Work"]
