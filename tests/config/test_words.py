"""Durations, sizes, yes and no, URLs."""

import pytest

from triocollect.config import words


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1.5h", 5400), ("250ms", 0.25), ("1 d", 86400)],
)
def test_a_duration_is_seconds(text, seconds):
    assert words.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "soon", "5 weeks", "1e3", "nan", "inf", "h", "1h30m"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="duration"):
        words.seconds(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1000000", 10**6),
        ("256MiB", 256 << 20),
        ("2GB", 2 * 10**9),
        ("1.5kB", 1500),
        ("1 tib", 1 << 40),
        ("7b", 7),
    ],
)
def test_a_size_is_bytes(text, count):
    assert words.size(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "256M", "1.5", "big", "1PB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"size|bytes|at least"):
        words.size(text)


@pytest.mark.parametrize("text", ["3.9", "", "five", "1e3", "٣", "0x10", "1" * 5000])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="number"):
        words.whole_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "host:8000",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://ho st",
        "http://h?x=1",
    ],
)
def test_what_is_no_base_url_is_refused(text):
    with pytest.raises(ValueError, match="URL"):
        words.base_url(text)


def test_a_url_with_a_password_is_refused_without_repeating_it():
    with pytest.raises(ValueError, match="password") as refusal:
        words.base_url("http://me:hush@host")
    assert "hush" not in str(refusal.value)


def test_a_trailing_slash_is_of_no_meaning():
    assert words.base_url("http://host:80/x/") == "http://host:80/x"
