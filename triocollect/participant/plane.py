"""The ASGI door of a participant: `/checkpoint/v1/*` is answered here, everything else by the application."""

from pathlib import Path
from typing import Final, Generic, final

from triocollect.errors import UsageError
from triocollect.participant.admission import Admission
from triocollect.participant.asgi import App, Receive, Scope, Send
from triocollect.participant.hooks import Hooks, R


@final
class ControlPlane(Generic[R]):
    """Middleware around an application whose work goes through `admission`.

    `token` is what the collector has to show, `root` the checkpoint directory as this process sees it.
    Raises UsageError for a token that is empty.
    """

    def __init__(self, app: App, hooks: Hooks[R], admission: Admission, *, token: str, root: Path) -> None:
        if not token:
            raise UsageError("a server that takes part in checkpoints needs a control token")
        self.app: Final = app
        self.hooks: Final = hooks
        self.admission: Final = admission
        self.root: Final = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)
