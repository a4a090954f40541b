"""`python -m triocollect`, and the command `triocollect`."""

import signal

# Before anything else is imported: someone who signals a collector that is still starting must not kill it.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)

import sys  # noqa: E402  # after the signal, as said above

import triocollect  # noqa: E402  # likewise

_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code. `arguments` are those of the process by default."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["--version"]:
        sys.stdout.write(f"triocollect {triocollect.__version__}\n")
        return 0
    try:
        from triocollect.cli.app import run  # noqa: PLC0415  # --version must not pay for it

        return run(given)
    except KeyboardInterrupt:  # while the above was being imported, or while its ending was being told
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("interrupted: run the same command again to continue\n")
        return _INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
