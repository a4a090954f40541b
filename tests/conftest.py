"""Trio tests without a plugin, simulated time, signals as in a terminal, and what CI may not skip."""

import inspect
import os
from collections.abc import Callable, Generator, Iterator
from typing import Final

import hypothesis
import pytest
import trio
import trio.testing

from fuzz.heard import hear

NEVER_SKIPPED_IN_CI: Final = ("slurm", "root")
LONGEST_FIRST: Final = ("slurm", "processes")

hypothesis.settings.register_profile("ci", derandomize=True, max_examples=200, deadline=None)
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(autouse=True, scope="session")
def _signals_are_heard() -> None:
    hear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait for processes come first: of two workers none is left alone with them at the end."""
    marks = {item.path: set[str]() for item in items}
    for item in items:
        marks[item.path].update(mark.name for mark in item.iter_markers())
    items.sort(key=lambda item: [mark not in marks[item.path] for mark in LONGEST_FIRST])


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Simulated time: a test that asks for it runs under a clock that jumps when everyone waits."""
    return trio.testing.MockClock(autojump_threshold=0)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Run `async def` tests under trio, under the test's own clock where it asked for one."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _under_trio(pyfuncitem.obj, pyfuncitem.funcargs.get("autojump_clock"))
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI the machine has to have what these tests need: one that is skipped there has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") and any(map(item.get_closest_marker, NEVER_SKIPPED_IN_CI)):
        report.outcome, report.longrepr = "failed", f"skipped, which CI may not do: {report.longreprtext}"
    return report


def _under_trio(test: Callable[..., object], clock: trio.abc.Clock | None) -> Callable[..., None]:
    def run(**kwargs: object) -> None:
        async def main() -> None:
            await test(**kwargs)  # type: ignore[misc]

        trio.run(main, clock=clock)

    return run
