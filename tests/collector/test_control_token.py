"""The control token comes from a file or the environment, and is fit for a header."""

import pytest

from triocollect.collector.control_token import VARIABLE, control_token
from triocollect.errors import UsageError


@pytest.mark.parametrize("token", ["gehe1m\N{LATIN SMALL LETTER U WITH DIAERESIS}", "two\nlines", "a\tb"])
def test_a_token_that_no_header_can_carry_is_refused_in_words(token, tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o600)
    with pytest.raises(UsageError, match="printable ASCII") as refused:
        control_token(file, embedded=False)
    assert token not in str(refused.value)
    monkeypatch.setenv(VARIABLE, token)
    with pytest.raises(UsageError, match=VARIABLE):
        control_token(None, embedded=False)


def test_a_token_of_printable_letters_is_taken(tmp_path):
    file = tmp_path / "token"
    file.write_text("s3cret!\n")
    file.chmod(0o600)
    assert control_token(file, embedded=False) == "s3cret!"
