"""All that a participant promises. What needs a process that has served nothing comes first."""

from typing import Final

from triocollect.conformance.about_calls import ABOUT_CALLS
from triocollect.conformance.about_work import ABOUT_WORK
from triocollect.conformance.promises import Promise, Try

PROMISES: Final = (*ABOUT_CALLS, *ABOUT_WORK)


def in_any_order(attempt: Try) -> Promise:
    """The last one, which `Wandering` tries."""
    return Promise(
        len(PROMISES) + 1,
        "any order",
        "whatever is asked in whatever order, again, at once or given up: each answer is the protocol's",
        attempt,
        look="triocollect/conformance/reference.py says what is answered when, as one list of cases",
        builds_on=tuple(promise.number for promise in ABOUT_CALLS),
    )
