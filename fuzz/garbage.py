"""Looking for garbage all the time, and among all modules, costs a tenth: it is looked for now and then."""

import contextlib
import gc
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def rarely_collected() -> Iterator[Callable[[], int]]:
    """Only when what this gives is called."""
    gc.disable()
    gc.collect()
    gc.freeze()
    try:
        yield gc.collect
    finally:
        gc.unfreeze()
        gc.enable()
