"""One message and one exit code, whatever was raised."""

import signal

import pytest

from triocollect.cli.faults import tell
from triocollect.errors import ConfigError, DeploymentError, LockedError, TransportError

HINT = "(set TRIOCOLLECT_DEBUG=1 for the traceback)"
INTERRUPTED = "interrupted: what is written stays; run the same command again to continue"


@pytest.fixture(autouse=True)
def interrupts(monkeypatch):
    monkeypatch.delenv("TRIOCOLLECT_DEBUG", raising=False)
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("fault", "code", "line"),
    [
        (LockedError("held"), 4, "triocollect: held"),
        (ConfigError("a: wrong"), 2, "triocollect: a: wrong"),
        (DeploymentError("it died"), 1, "triocollect: it died"),
        (ZeroDivisionError("oh"), 1, f"triocollect: internal error: ZeroDivisionError: oh {HINT}"),
        (KeyboardInterrupt(), 130, INTERRUPTED),
        (BaseExceptionGroup("", [LockedError("held")]), 4, "triocollect: held"),
        (BaseExceptionGroup("", [LockedError("x"), BaseExceptionGroup("", [KeyboardInterrupt()])]), 130,
         INTERRUPTED),
        (ExceptionGroup("", [LockedError("x"), KeyError("y")]), 1,
         f"triocollect: internal error: KeyError: 'y' {HINT}"),
        (ExceptionGroup("", [LockedError("x"), TransportError("y", kind="closed")]), 4, "triocollect: x"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line_and_its_code(fault, code, line, capsys):
    assert tell(fault) == code
    assert capsys.readouterr().err == line + "\n"


def test_the_traceback_is_there_for_those_who_ask(monkeypatch, capsys):
    monkeypatch.setenv("TRIOCOLLECT_DEBUG", "1")
    with pytest.raises(ZeroDivisionError) as caught:
        divmod(1, 0)
    assert tell(caught.value) == 1
    assert "Traceback" in capsys.readouterr().err
