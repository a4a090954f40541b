"""`--until-invariant N`: end with the first failure that names invariant N, as a planted flaw has to show."""

import hypothesis
import pytest
from hypothesis import Phase

from fuzz.heard import hear
from fuzz.pinned import is_pinned, pin

OPTION = "--until-invariant"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one option."""
    parser.addoption(OPTION, type=int, help="end as soon as a failure names this invariant")


def pytest_configure(config: pytest.Config) -> None:
    """Have seeds draw what they draw with `python -m fuzz`; make no history of a known flaw small."""
    if not is_pinned():
        if (capturing := config.pluginmanager.getplugin("capturemanager")) is not None:
            capturing.stop_global_capturing()
        pin()
    if config.getoption(OPTION, default=None) is not None:
        phases = (Phase.explicit, Phase.generate)
        hypothesis.settings.register_profile("until", hypothesis.settings.default, phases=phases)
        hypothesis.settings.load_profile("until")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Look at what failed."""
    report = yield
    number = item.config.getoption(OPTION, default=None)
    if number is not None and report.failed and f"invariant {number} is broken" in report.longreprtext:
        item.session.shouldstop = f"invariant {number} is broken, as was to be shown"
    return report


@pytest.fixture(autouse=True, scope="session")
def _signals_are_heard() -> None:
    hear()


@pytest.fixture
def until(request: pytest.FixtureRequest) -> int | None:
    """The invariant that a failure has to name."""
    return request.config.getoption(OPTION, default=None)
