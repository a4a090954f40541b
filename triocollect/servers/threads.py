"""Where a server does what blocks."""

from functools import partial
from typing import Final

import trio

from triocollect.participant.standing import InThread

# A disk that hangs keeps a thread, and nobody who gives up waiting for it.
IN_THREAD: Final[InThread] = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
