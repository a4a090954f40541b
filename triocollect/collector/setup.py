"""What a run is made of before it begins: what to collect, and the world that it works in."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import field, frozen

from triocollect.checkpoint.airspace import Blocking
from triocollect.checkpoint.inbox import Inbox
from triocollect.collector.fleet import HandOver
from triocollect.collector.send import Dispatch, Headers
from triocollect.collector.sinks import in_a_thread
from triocollect.collector.whereto import Deployment, bring_up
from triocollect.config.settings import Config
from triocollect.events import CheckpointEnded, Event, Listener, Note
from triocollect.protocol.manifests import CheckpointOutcome
from triocollect.transport import Client

if TYPE_CHECKING:
    import httpx  # which is slow, and only needed with a directory


@frozen(kw_only=True)
class Setup:
    """What a run is set up with. `dispatch`: the caller sends rows itself; `hand_over` waits for the caller.

    `orders` gets the inbox of a run with a checkpoint directory, before anything else is done there.
    `deployment` brings the embedded servers up, `control` replaces the network of control calls. `headers`:
    what else is said beside a row.
    """

    config: Config
    transport: Client
    listener: Listener
    dispatch: Dispatch | None = None
    hand_over: HandOver | None = None
    blocking: Blocking = in_a_thread
    signals: bool = False  # heard only with a checkpoint directory, and in the main thread
    orders: Callable[[Inbox], None] | None = None
    deployment: Deployment = bring_up
    control: "httpx.AsyncBaseTransport | None" = None
    headers: Headers | None = None
    warnings: list[str] = field(factory=list)
    outcomes: list[CheckpointOutcome] = field(factory=list)

    def tell(self, event: Event) -> None:
        """To whoever listens; warnings and checkpoints are kept for the report."""
        if isinstance(event, Note) and event.level == "warning":
            self.warnings.append(event.text)
        elif isinstance(event, CheckpointEnded):
            self.outcomes.append(event.outcome)
        self.listener(event)
