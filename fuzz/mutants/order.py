"""In which order the short profile looks for a flaw. Pure.

What asks most about its invariant comes first, and of the rest what is quick: the first failure that names
the invariant ends the search. Nothing is left out, so an order that guesses wrong costs time and no more.
"""

from collections.abc import Iterable
from typing import Final

QUICKEST_FIRST: Final = (
    "test_oracle",
    "test_tally",
    "test_rules",
    "test_resuming",
    "test_retiring",
    "test_ended_work",
    "test_on_the_wire",
    "test_not_captured",
    "test_knocking",
    "test_forgetting",
    "test_greeting",
    "test_restoring",
    "test_same_task",
    "test_freed",
    "test_stopping",
    "test_appending",
    "test_held",
    "test_ledger_machine",
    "test_dispatch_log_machine",
    "test_capture_ledger",
    "test_database_machine",
    "test_participant_whole",
    "test_kill_points",
    "test_store_machine",
    "test_files",
    "test_promises",
    "test_phases_machine",
    "test_stories",
    "test_generation_cuts",
    "test_workers",
    "test_disk_errors",
    "test_crash_states",
    "test_power_cuts",
    "test_live",
    "test_traced",
    "test_whole_run",
    "test_peers",
)
ASKED_BY: Final = {
    1: (
        "test_appending",
        "test_on_the_wire",
        "test_files",
        "test_kill_points",
        "test_disk_errors",
        "test_whole_run",
    ),
    2: (
        "test_ledger_machine",
        "test_dispatch_log_machine",
        "test_capture_ledger",
        "test_promises",
        "test_stories",
        "test_workers",
        "test_whole_run",
    ),
    3: (
        "test_forgetting",
        "test_store_machine",
        "test_kill_points",
        "test_files",
        "test_crash_states",
        "test_disk_errors",
    ),
    4: ("test_store_machine", "test_files", "test_crash_states"),
    5: ("test_promises", "test_stories", "test_workers", "test_whole_run"),
    6: ("test_ledger_machine", "test_stories", "test_workers", "test_whole_run"),
    7: (
        "test_retiring",
        "test_ended_work",
        "test_ledger_machine",
        "test_promises",
        "test_stories",
        "test_whole_run",
        "test_files",
    ),
    8: (
        "test_greeting",
        "test_store_machine",
        "test_resuming",
        "test_phases_machine",  # before those that a lease without an end leaves waiting
        "test_promises",
        "test_participant_whole",
        "test_stories",
        "test_workers",
    ),
    9: ("test_participant_whole", "test_promises", "test_phases_machine"),
    10: (
        "test_knocking",
        "test_store_machine",
        "test_promises",
        "test_phases_machine",
        "test_stories",
        "test_workers",
        "test_whole_run",
    ),
    11: ("test_held", "test_generation_cuts", "test_promises", "test_stories", "test_whole_run"),
    12: ("test_not_captured", "test_knocking", "test_stories", "test_workers", "test_whole_run"),
    13: (
        "test_same_task",
        "test_not_captured",
        "test_database_machine",
        "test_promises",
        "test_stories",
        "test_workers",
        "test_whole_run",
        "test_live",
    ),
    14: ("test_stopping", "test_stories", "test_whole_run", "test_live", "test_peers"),
    15: (
        "test_appending",
        "test_forgetting",
        "test_files",
        "test_kill_points",
        "test_crash_states",
        "test_disk_errors",
        "test_whole_run",
    ),
    16: ("test_restoring", "test_freed", "test_promises", "test_stories", "test_workers", "test_whole_run"),
}


def in_order(names: Iterable[str], invariant: int | None) -> list[str]:
    """Those of the test modules `names` that are there, all of them, for a flaw that breaks `invariant`."""
    wanted = (*ASKED_BY.get(invariant or 0, ()), *QUICKEST_FIRST)
    place = {name: number for number, name in reversed([*enumerate(wanted)])}
    return sorted(names, key=lambda name: (place.get(name, len(wanted)), name))
