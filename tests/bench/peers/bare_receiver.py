"""The least that can hear a signal under trio: a receiver, and a line for every USR1."""

import signal
import sys

import trio


async def main() -> None:
    """Until killed; the first line says that it listens."""
    with trio.open_signal_receiver(signal.SIGUSR1) as arrivals:
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        async for _ in arrivals:
            sys.stdout.write("heard\n")
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main)
