"""Every `async def` test here runs under trio and under asyncio; one with simulated time under trio alone."""

import inspect
from collections.abc import Iterator

import anyio
import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask for both event loops."""
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.fixturenames.append("backend")
        simulated = "autojump_clock" in metafunc.fixturenames
        metafunc.parametrize("backend", ["trio"] if simulated else ["trio", "asyncio"])


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Run the test before the hook for trio sees it, on the loop that it was parametrised with."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        backend = pyfuncitem.callspec.params["backend"]
        clock = pyfuncitem.funcargs.get("autojump_clock")
        options = {} if clock is None else {"clock": clock}

        def run(**kwargs: object) -> None:
            async def main() -> None:
                await test(**kwargs)

            anyio.run(main, backend=backend, backend_options=options)

        pyfuncitem.obj = run
    yield
