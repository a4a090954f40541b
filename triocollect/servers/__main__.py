"""`python -m triocollect.servers KIND --name NAME --fd N [--lifeline] [--workers N]`: a server as a process.

With `--workers` above 1 it is the coordinator of so many others, which serve. Its settings are one JSON line
on standard input, so that neither addresses nor keys show among the arguments.
With `--lifeline` standard input stays open as long as the owner lives, and its end is the only thing that
ends the process: a terminal signals the whole group, a batch system every process of a job, and the servers
must outlive the moment in which their collector stops.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Callable

from triocollect.errors import TriocollectError
from triocollect.servers import KINDS
from triocollect.servers.observed import add_flags, flags_of_workers, observed
from triocollect.servers.serve import make_app, run_alone, run_child
from triocollect.servers.workers.keeping import Crewed
from triocollect.servers.workers.run import run_crew_alone, run_crew_child, run_one


def main() -> int:
    """Read the settings, then serve until told to end. The exit code of an error is the error's own."""
    parser = argparse.ArgumentParser(prog="python -m triocollect.servers", description="one server")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--name", required=True, help="what the process list shows")
    parser.add_argument("--fd", type=int, required=True, help="a listening socket that was handed down")
    parser.add_argument("--lifeline", action="store_true", help="end when standard input ends, and only then")
    parser.add_argument(
        "--grace", type=float, default=0.0, help="seconds that TERM waits while a collector is at work"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes behind the one socket")
    parser.add_argument("--worker", action="store_true", help="be one of those; the coordinator's to say")
    add_flags(parser)
    given = parser.parse_args()

    def tell(text: str) -> None:
        sys.stderr.write(f"{given.name}: {text}\n")

    if given.lifeline:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format=f"{given.name}: %(message)s")
    try:
        with open(0, "rb", buffering=0, closefd=False) as told:  # what follows the line is read by others
            settings = told.readline()
            place = told.readline() if given.worker else b""
        with observed(given, tell):
            serve(given, settings, place, tell)
        if not (given.worker or given.lifeline):
            tell("told to end, and ended")
    except TriocollectError as error:
        tell(str(error))
        return error.exit_code
    return 0


def serve(given: argparse.Namespace, settings: bytes, place: bytes, tell: Callable[[str], None]) -> None:
    """Until told to end: as a worker, with workers, or alone."""
    if given.worker:
        run_one(given.kind, settings, given.fd, place)
    elif given.workers > 1:
        of_workers = tuple(flags_of_workers(given))
        crewed = Crewed(given.kind, given.name, settings, given.fd, given.workers, of_workers)
        if given.lifeline:
            run_crew_child(crewed, tell)
        else:
            run_crew_alone(crewed, given.grace, tell)
    elif given.lifeline:
        run_child(make_app(given.kind, settings), given.fd)
    else:
        run_alone(make_app(given.kind, settings), f"fd://{given.fd}", given.grace, tell)


if __name__ == "__main__":
    sys.exit(main())
