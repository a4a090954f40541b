"""Whether bytes that are not on disk can have been lost since they were written."""

import subprocess
import sys
from pathlib import Path

import pytest

from triocollect.checkpoint.kept_by_kernel import term_of


def test_it_is_the_same_for_every_process_and_every_folder_of_a_mount(tmp_path):
    (tmp_path / "below").mkdir()
    asked = "from triocollect.checkpoint.kept_by_kernel import term_of, Path; "
    asked += f"print(term_of(Path({str(tmp_path)!r})))"
    other = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert other.stdout.strip() == term_of(tmp_path) == term_of(tmp_path / "below") != "/"


def test_a_folder_that_is_not_there_has_the_boot_alone(tmp_path):
    assert term_of(tmp_path / "gone").endswith("/")


@pytest.mark.root
def test_a_mount_that_was_undone_and_done_again_is_another(tmp_path, mounts):
    place = tmp_path / "place"
    place.mkdir()
    mounts.do(place)
    before = term_of(place)
    mounts.undo(place)
    mounts.do(place)
    assert term_of(place) not in {before, term_of(tmp_path)}
    assert term_of(place).partition("/")[0] == before.partition("/")[0]


class Mounts:
    """File systems in memory."""

    def __init__(self):
        self.done = []

    def do(self, place: Path):
        ended = subprocess.run(
            ["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            pytest.skip(f"cannot mount: {ended.stderr.strip()}")
        self.done.append(place)

    def undo(self, place: Path):
        subprocess.run(["umount", place], check=True)
        self.done.remove(place)


@pytest.fixture
def mounts():
    made = Mounts()
    yield made
    for place in [*made.done]:
        made.undo(place)
