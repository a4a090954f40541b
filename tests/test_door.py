"""The names that users see."""

import subprocess
import sys

import triocollect
from triocollect import errors


def test_the_door_names_what_it_has_in_order():
    assert sorted(triocollect.__all__) == triocollect.__all__
    for name in triocollect.__all__:
        assert getattr(triocollect, name).__name__ == name


def test_importing_the_package_loads_neither_trio_nor_httpx():
    code = "import sys, triocollect; sys.exit(bool({'trio', 'httpx', 'cattrs'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(triocollect, "colect")


def test_exit_codes_are_distinct():
    assert len({code.value for code in errors.Exit}) == len(errors.Exit.__members__)


def test_every_error_is_drawn_in_the_tree():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, errors.TriocollectError):
            assert f"{kind.__name__} " in errors.__doc__, kind
            line = next(line for line in errors.__doc__.splitlines() if f"{kind.__name__} " in line)
            drawn = next(int(word) for word in line.split() if word.isdigit())
            assert drawn == kind.exit_code, kind


def test_the_door_still_opens_after_its_rooms_are_loaded():
    code = (
        "import triocollect, triocollect.collector.door as door;"
        "import sys; sys.exit(not all(getattr(triocollect, n) is getattr(door, n)"
        " for n in ('collect', 'running', 'collect_sync') for _ in range(2)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
