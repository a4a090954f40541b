"""The real command may be killed by the kernel at a call on one of its files, or get an error; it goes on."""

import shutil

import pytest

from fuzz.disk.traced import Blow, Struck
from fuzz.tally import Tally

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to get into system calls"),
]


def test_the_real_command_outlives_a_death_and_an_error_where_latest_moves():
    tally = Tally("traced", 0)
    death = Blow("ckpt/.LATEST.tmp", "rename", 1, "signal=KILL")
    full = Blow("ckpt/.LATEST.tmp", "write", 1, "error=ENOSPC")
    Struck((death, full), tally).live()
    assert not tally.violations, "\n\n".join(tally.violations)
    outcomes = {name: dict(kind.outcomes) for name, kind in tally.account().kinds.items()}
    assert [Blow.told_by(str(one)) for one in (death, full)] == [death, full], "a replay names them"
    assert outcomes == {"real signal=KILL": {"killed": 1}, "real error=ENOSPC": {"ends with 75": 1}}
