"""`--until-invariant N`: end with the first failure that names invariant N, as a planted flaw has to show."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    parser.addoption("--until-invariant", type=int, help="end as soon as a failure names this invariant")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Look at what failed."""
    report = yield
    number = item.config.getoption("--until-invariant", default=None)
    if number is not None and report.failed and f"invariant {number} is broken" in report.longreprtext:
        item.session.shouldstop = f"invariant {number} is broken, as was to be shown"
    return report
