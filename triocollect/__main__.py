"""`python -m triocollect`, and the command `triocollect`."""

import signal


def _keep_signals() -> None:
    """Whoever signals a collector that is still starting must not kill it; see `dispositions`."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


if __name__ == "__main__":
    _keep_signals()  # before anything else is imported

import os  # noqa: E402  # after the signals, as said above
import sys  # noqa: E402  # likewise

import triocollect  # noqa: E402  # likewise
from triocollect import dispositions  # noqa: E402  # likewise

_INTERRUPTED = 130
_STANDARD_ERROR = 2


def program() -> int:
    """The whole process: one command, and nothing that a signal can do to it afterwards."""
    _keep_signals()
    dispositions.stay_alive()
    code = _INTERRUPTED
    try:
        code = main()
        dispositions.hear_no_more()
    except KeyboardInterrupt:  # between the two, or while one before it was being told
        dispositions.hear_no_more()
    return code


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code. `arguments` are those of the process by default."""
    _close_the_gaps()
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--version"]:
        return _tell_version()
    try:
        if given[:1] != ["run"]:  # which gives signals back when it knows whether it takes checkpoints
            dispositions.give_back()
        from triocollect.cli.app import run  # noqa: PLC0415  # --version must not pay for it

        return run(given)
    except KeyboardInterrupt:  # while the above was being imported, or while its ending was being told
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if sys.stderr is not None:
            sys.stderr.write("interrupted: run the same command again to continue\n")
        return _INTERRUPTED


def _tell_version() -> int:
    try:
        print(f"triocollect {triocollect.__version__}", flush=True)  # noqa: T201  # must not load cli.say
    except OSError as fault:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        print(f"triocollect: {fault.strerror}", file=sys.stderr)  # noqa: T201  # likewise
        return 1
    return 0


def _close_the_gaps() -> None:
    """No file of ours may become a standard stream that we were started without: others write to those."""
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(program())
