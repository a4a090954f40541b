"""The cookies of one episode, kept as the text of a Cookie header: `a=1; b=2`. Pure."""

from collections.abc import Iterable


def given_back(set_cookies: Iterable[str]) -> str | None:
    """What a Cookie header gives back of the Set-Cookie headers of a reply; None without any."""
    return "; ".join(header.partition(";")[0].strip() for header in set_cookies) or None


def renewed(held: str | None, newer: str | None) -> str | None:
    """`held` with the newer values, name by name: a server may renew one cookie and rely on the others."""
    return "; ".join(({_name(pair): pair for pair in [*_pairs(held), *_pairs(newer)]}).values()) or None


def set_again(cookie: str | None) -> list[tuple[bytes, bytes]]:
    """The same cookies as Set-Cookie headers, one each: behind a semicolon a second would be an attribute."""
    return [(b"set-cookie", pair.encode("latin-1")) for pair in _pairs(cookie)]


def _pairs(cookie: str | None) -> list[str]:
    return cookie.split("; ") if cookie else []


def _name(pair: str) -> str:
    return pair.partition("=")[0]
