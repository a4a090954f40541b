"""Promises about what a commit leaves in the checkpoint directory, as it is seen from here."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

import anyio
import msgspec

from triocollect.conformance.peer import OF_A_TEST, Peer, UnderWay
from triocollect.conformance.reply import Reply
from triocollect.protocol.manifests import Manifest
from triocollect.protocol.messages import Committed, ManifestRef, Resumed
from triocollect.protocol.values import NOT_JSON

LATE_S: Final = 1.0  # a write that a resume did not stop would have ended by then
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


async def commit_is_on_disk(peer: Peer) -> None:
    """When a commit answers, its manifest and the records are there, with their digests."""
    await peer.prepared()
    fields = peer.cut()
    reply = await peer.call("commit", **fields)
    told = reply.done(Committed).manifest
    for expected in _faults(peer, PurePosixPath(str(fields["directory"])), told):
        raise reply.broken(expected)


def _faults(peer: Peer, directory: PurePosixPath, told: ManifestRef) -> Iterator[str]:
    """What should be there instead, the first thing first."""
    assert peer.directory is not None
    inside = PurePosixPath(told.path)
    if ".." in inside.parts or not inside.is_relative_to(directory):
        yield f"a manifest below {directory}/, told relative to the checkpoint directory"
    try:
        yield from _faults_of(peer, peer.directory / inside, told)
    except OSError as error:
        yield f"{error.filename} to be there when the call is answered: {error.strerror}"
    except NOT_JSON as error:
        yield f"{peer.directory / inside} to be a manifest: {error}"


def _faults_of(peer: Peer, path: Path, told: ManifestRef) -> Iterator[str]:
    data = path.read_bytes()
    if (digest := hashlib.sha256(data).hexdigest()) != told.sha256:
        yield f"the digest of {path}, {digest}"
    manifest = msgspec.json.decode(data, type=Manifest)
    if "/" in (name := manifest.records.path):
        yield f"records beside {path}, not {name!r}"
    records = path.parent / name
    content = records.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest.records.sha256:
        yield f"{records} to have the digest that its manifest says, {manifest.records.sha256}"
    counted = (content.count(b"\n"), manifest.records.record_count, told.record_count)
    if len(set(counted)) > 1:
        yield f"one number of records in {records}, its manifest and the answer, not {counted}"
    itself = peer.capabilities
    if (manifest.kind, manifest.instance) != (itself.kind, itself.instance):
        yield f"{path} to say {itself.kind} and {itself.instance}, as the capabilities do"
    for one in (path, records):
        if one.stat().st_mode & _OTHERS:
            yield f"{one} to have the mode 0600"


async def nothing_comes_late(peer: Peer) -> None:
    """Neither of a commit that was answered, nor of one without time, nor of one whose caller went away."""
    resumed: list[tuple[str, Reply, frozenset[str]]] = []
    for how in ("answered", "without time", "given up"):
        await peer.prepared()
        await _commit(peer, how)
        reply = await peer.call("resume")
        reply.done(Resumed)
        resumed.append((how, reply, files_of(peer, peer.folders[-1])))
        peer.operation += 1
    await anyio.sleep(LATE_S)
    for folder, (how, reply, before) in zip(peer.folders[-len(resumed) :], resumed, strict=True):
        if late := sorted(files_of(peer, folder) - before):
            raise reply.broken(
                f"no file of the operation: its commit was {how}, and after the resume came {late[0]}"
            )


async def _commit(peer: Peer, how: str) -> None:
    fields = peer.cut()
    match how:
        case "answered":
            (await peer.call("commit", **fields)).done(Committed)
        case "without time":
            await peer.call("commit", **fields, budget_ms=0)
        case _:
            async with anyio.create_task_group() as tasks:
                asking = UnderWay(tasks, lambda: peer.call("commit", **fields))
                await asking.reply(0.001)
                tasks.cancel_scope.cancel()


async def commit_keeps_to_its_folder(peer: Peer) -> None:
    """Whatever appears is below the folder that the commit names; what was there before stays as it was."""
    before = _standing(peer)
    await peer.committed()
    reply = await peer.call("resume")
    reply.done(Resumed)
    after = _standing(peer)
    changed = {name for name, _ in before.items() ^ after.items()}
    ours = f"{peer.folders[-1]}/"
    if strange := sorted(name for name in changed if not name.startswith(ours)):
        how = "was removed" if strange[0] not in after else "is changed" if strange[0] in before else "is new"
        raise reply.broken(f"nothing written outside {ours} by its commit: {strange[0]} {how}")


def _standing(peer: Peer) -> dict[str, tuple[int, ...]]:
    """What is in the checkpoint directory. Folders of other tests of this kind are none of our business."""
    assert peer.directory is not None
    beside = {path.name: () for path in peer.directory.iterdir() if not path.name.startswith(OF_A_TEST)}
    files = [path for folder in peer.folders for path in files_of(peer, folder)]
    return beside | {name: _version((peer.directory / name).stat()) for name in files}


def _version(one: os.stat_result) -> tuple[int, ...]:
    return one.st_ino, one.st_size, one.st_mtime_ns


def files_of(peer: Peer, folder: str) -> frozenset[str]:
    """What the server has written there, by name."""
    assert peer.directory is not None
    paths = (peer.directory / folder).rglob("*")
    return frozenset(path.relative_to(peer.directory).as_posix() for path in paths if path.is_file())
