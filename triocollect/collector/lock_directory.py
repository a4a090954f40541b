"""The checkpoint directory of a run, from the lock to the last word, and orders from before the lock on."""

import contextlib
import threading
from collections.abc import AsyncIterator

import httpx
import trio
from attrs import frozen

from triocollect.checkpoint.directory import Directory, open_directory
from triocollect.checkpoint.discovery import control_client
from triocollect.checkpoint.inbox import Inbox
from triocollect.checkpoint.line import ControlClient
from triocollect.checkpoint.store import Store
from triocollect.collector.control_token import control_token
from triocollect.collector.giving_way import go_on_unless_stopped
from triocollect.collector.whereto import is_embedded
from triocollect.config.settings import CheckpointConfig, Config
from triocollect.errors import StorageError, UsageError
from triocollect.events import Listener, Note


@frozen(kw_only=True)
class LockedDirectory:
    """The checkpoint directory, ours until the run is over, and who may speak to the servers."""

    config: CheckpointConfig
    directory: Directory
    store: Store
    token: str
    client: ControlClient
    inbox: Inbox


def open_inbox(config: CheckpointConfig, *, signals: bool) -> Inbox:
    """Where orders wait until somebody takes them. Raises UsageError where no signal can be heard."""
    if signals and threading.current_thread() is not threading.main_thread():
        raise UsageError("signals are heard in the main thread only; collect without signals=True elsewhere")
    return Inbox(config.timeout_s if config.grace_s is None else config.grace_s, now=trio.current_time())


@contextlib.asynccontextmanager
async def lock_directory(
    config: Config, inbox: Inbox, *, signals: bool, tell: Listener, control: httpx.AsyncBaseTransport | None
) -> AsyncIterator[LockedDirectory]:
    """The directory is ours in this block; with `signals`, which are heard by now, its pid file names us.

    Raises LockedError, UsageError, StorageError; StoppedError when the wait for the lock was told to end.
    """
    assert config.checkpoint is not None
    checkpoint = config.checkpoint
    alone = is_embedded(config) and not config.servers.peers  # nobody else has to know the token
    token = control_token(checkpoint.control_token_file, embedded=alone)
    directory = None
    with inbox.giving_way():
        directory = await open_directory(
            checkpoint.dir,
            wait_s=config.output.wait_for_lock_s,
            warn=lambda text: tell(Note(text, "warning")),
        )
    if directory is None:
        go_on_unless_stopped(inbox)
    assert directory is not None
    try:
        if directory.fault is not None:
            tell(Note(directory.fault, "warning"))
        if signals:
            directory.write_pid()
        async with control_client(token, control) as client:
            yield LockedDirectory(
                config=checkpoint,
                directory=directory,
                store=Store(checkpoint.dir, confirm=directory.confirm),
                token=token,
                client=client,
                inbox=inbox,
            )
    finally:
        if signals:
            with contextlib.suppress(StorageError):  # a stale one is no harm: the lock decides
                directory.remove_pid()
        directory.close()
