"""Every way out of a run lets the next one in, in the same process too: the locks and all descriptors go."""

import errno
import fcntl
from pathlib import Path

import pytest
import trio
from attrs import evolve

from tests.collector.runs import RunFolder, inline
from triocollect.collector.run import run
from triocollect.collector.setup import Setup
from triocollect.config import CheckpointConfig
from triocollect.errors import GivenUpError, StoppedError, TriocollectError, UsageError, reason_of
from triocollect.events import Note, RunStarted
from triocollect.transport import Client, Transport

pytestmark = pytest.mark.usefixtures("autojump_clock")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIOCOLLECT_CONTROL_TOKEN", "0123456789abcdef" * 4)
    return RunFolder(tmp_path)


async def nobody(_host, _port, _tls):
    await trio.lowlevel.checkpoint()
    raise ConnectionRefusedError


async def attempt(place, *, orders=lambda _: None, listener=lambda _: None):
    """One run against a server that is not there; what it raised."""
    config = evolve(
        place.config(url="http://nobody.example"),
        checkpoint=CheckpointConfig(dir=place.folder / "checkpoints"),
    )
    transport = Client(connect=nobody)
    setup = Setup(
        config=config,
        transport=transport,
        listener=listener,
        blocking=inline,
        orders=orders,
        control=Transport(connect=nobody),
    )
    try:
        await run(setup)
    except BaseExceptionGroup as group:
        return reason_of(group)
    except (TriocollectError, ZeroDivisionError) as error:
        return error
    finally:
        await transport.aclose()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def stop(inbox):
    inbox.stop(trio.current_time())


def leave(inbox):
    inbox.interrupt(trio.current_time())
    inbox.interrupt(trio.current_time())


@pytest.mark.parametrize(("orders", "kind"), [(stop, StoppedError), (leave, GivenUpError)])
async def test_a_run_that_is_told_to_stop_before_it_began_was_never_there(place, orders, kind):
    before, files = sorted(place.folder.rglob("*")), open_files()
    for _ in range(2):
        assert type(await attempt(place, orders=orders)) is kind
        assert sorted(place.folder.rglob("*")) == before
    assert open_files() == files


def broken_at(kind):
    def listener(event):
        if isinstance(event, kind):
            raise ZeroDivisionError

    return listener


@pytest.mark.parametrize(
    ("listener", "kind"),
    [(lambda _: None, UsageError), (broken_at(Note), ZeroDivisionError)],
    ids=["servers that are not there", "a listener that breaks"],
)
async def test_a_run_that_cannot_begin_keeps_nobody_out(place, listener, kind):
    files = open_files()
    for _ in range(2):
        assert type(await attempt(place, listener=listener)) is kind
    assert open_files() == files


async def test_rows_are_not_said_to_begin_where_the_servers_are_not_there(place):
    heard = []
    assert type(await attempt(place, listener=heard.append)) is UsageError
    assert not [event for event in heard if isinstance(event, RunStarted)]


async def test_a_file_system_without_locks_and_a_listener_that_breaks_leave_nothing_open(place, monkeypatch):
    def no_locks(_descriptor, _how):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    files = open_files()
    assert type(await attempt(place, listener=broken_at(Note))) is ZeroDivisionError
    assert open_files() == files
