"""What every case has in common."""

import os

import pytest


@pytest.fixture(autouse=True)
def _only_the_flags_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("TRIOCOLLECT_", "NEMO_GYM_")):
            monkeypatch.delenv(name)
