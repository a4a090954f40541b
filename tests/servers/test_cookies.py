"""Cookies between servers: every one that was set is given back, whoever passes it on."""

import httpx
import pytest

from tests.servers.wired import COUNTER_ROW, Deployment
from triocollect.servers.cookies import given_back, renewed, set_again


@pytest.mark.parametrize(
    ("held", "newer", "together"),
    [
        (None, None, None),
        ("a=1", None, "a=1"),
        (None, "a=1; b=2", "a=1; b=2"),
        ("a=1; b=2", "b=3", "a=1; b=3"),
        ("a=1", "b=x=y", "a=1; b=x=y"),
    ],
)
def test_newer_cookies_replace_those_of_their_name_only(held, newer, together):
    assert renewed(held, newer) == together


def test_cookies_that_are_passed_on_come_back_as_they_were():
    cookie = given_back(["a=1; Path=/; HttpOnly", "b=2"])
    assert cookie == "a=1; b=2"
    assert given_back([value.decode() for _, value in set_again(cookie)]) == cookie


async def test_the_verifier_gets_all_cookies_that_the_tools_have_set():
    answers = {
        "/seed_session": [("set-cookie", "session=s; Path=/"), ("set-cookie", "step=0")],
        "/increment": [("set-cookie", "step=1; Path=/"), ("set-cookie", "seen=yes")],
    }
    heard = {}

    def counter(request):
        heard[request.url.path] = request.headers.get("cookie")
        return httpx.Response(200, json={"reward": 1.0}, headers=answers.get(request.url.path, []))

    async with Deployment({"counter": counter}).asking() as client:
        assert (await client.post("/run", json=COUNTER_ROW)).status_code == 200
    assert heard["/increment"] == "session=s; step=1; seen=yes"
    assert heard["/verify"] == heard["/close_session"] == "session=s; step=1; seen=yes"
