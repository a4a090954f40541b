"""Settings files."""

import pytest

from triocollect.config.files import read_settings
from triocollect.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.toml", "limit = 5\nnum_repeats = {a = 2}\n"),
        ("s.yaml", "limit: 5\nnum_repeats: {a: 2}\n"),
        ("s.yml", "limit: 5\nnum_repeats:\n  a: 2\n"),
        ("s.json", '{"limit": 5, "num_repeats": {"a": 2}}'),
    ],
)
def test_each_format_says_the_same(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert read_settings(path) == {"limit": 5, "num_repeats": {"a": 2}}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("s.toml", "limit = 5\nlimit = 6\n", "overwrite"),
        ("s.yaml", "limit: 5\nlimit: 6\n", "twice"),
        ("s.yaml", "a: {b: 1, b: 2}\n", "twice"),
        ("s.yaml", "a: [\n", "line 2"),
        ("s.yaml", "? [a]\n: 1\n", "cannot be a key"),
        ("s.json", '{"limit": 5, "limit": 6}', "twice"),
        ("s.json", '{"limit": NaN}', "not JSON"),
        ("s.json", '{"limit": }', "line 1"),
        ("s.json", "[1]", "must hold a map"),
        ("s.json", "[" * 100_000, "deep"),
        ("s.ini", "", "ends in"),
        ("s.toml", b"\xff", "utf-8"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=words) as refusal:
        read_settings(path)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"s\.toml: cannot be read: No such file"):
        read_settings(tmp_path / "s.toml")


def test_an_empty_file_sets_nothing(tmp_path):
    (tmp_path / "s.yaml").write_text("# nothing\n")
    assert read_settings(tmp_path / "s.yaml") == {}
