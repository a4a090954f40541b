"""What whoever starts a server process agrees on with it: a listening socket is handed down to it. Pure."""

from typing import Final

BACKLOG: Final = (
    4096  # connections that may wait; set when the socket is made, and again by who takes it over
)
MODULE: Final = "triocollect.servers"  # `python -m` this
