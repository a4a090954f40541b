"""A coordinator that cannot have a worker."""

import errno
import os
import socket

import pytest
import trio

from tests.participant.counts import Counts
from triocollect.errors import DeploymentError
from triocollect.participant import Admission
from triocollect.servers.workers.keeping import Crewed, Keeper


async def test_a_worker_that_no_descriptors_are_left_for_is_named_with_the_reason(monkeypatch):
    def none_left():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    keeper = Keeper(Crewed("resources", "counts", b"{}", 0, 2), Counts(Admission()), print)
    monkeypatch.setattr(socket, "socketpair", none_left)
    with pytest.raises(DeploymentError, match=r"worker [12] could not be started: .*Too many open files"):
        await keeper.serve(trio.sleep_forever)
