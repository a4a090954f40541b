"""Signals of the processes that are started here do what they do in a terminal."""

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard():
    """Whoever starts tests in the background has INT ignored, and every process that we start with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
