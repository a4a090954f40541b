"""A preempted run: its output, and its checkpoint directory beside it."""

import pytest

from tests.reading.runs import write_directory, write_output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, so that paths in what is told are short and stay the same."""
    monkeypatch.chdir(tmp_path)
    write_output(tmp_path)
    write_directory(tmp_path / "ckpt")
    return tmp_path
