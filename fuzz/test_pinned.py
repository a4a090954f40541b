"""The same seed has the same calls and states in any process: else a replay shows another place."""

import os
import subprocess
import sys

PROGRAM = """
from fuzz.pinned import pin
pin()
import hashlib, logging, random
from fuzz.disk.cuts import Cuts
from fuzz.disk.lives import a_story, record
from fuzz.disk.places import memory_folder
from fuzz.disk.storage import Disk
from fuzz.simulation.world import World
logging.disable()
with memory_folder() as root:
    recorder = record(World(root, a_story(3)))
disk, cuts, states = Disk(recorder.base, recorder.everything), Cuts(random.Random(1)), set()
for operation, _ in recorder.log:
    disk.do(operation)
    states |= {state.digest for state in cuts.states(disk)}
calls = "\\n".join(told for _, told in recorder.log)
print(len(states), hashlib.sha256(b"".join(sorted(states))).hexdigest())
print(hashlib.sha256(calls.encode()).hexdigest())
"""


def told(hash_seed):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.split()


def test_two_processes_that_hash_in_other_ways_see_the_same_calls_and_states():
    first, second = told("1"), told("2")
    assert first == second
    assert int(first[0]) >= 100
