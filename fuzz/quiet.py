"""Nothing is logged meanwhile: what servers say of peers that died fills a screen."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet(level: int = logging.WARNING) -> Iterator[None]:
    """Up to that level; around a block, or a whole function."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)
