"""Rows into the gate, in order; a task only for a row that was let in."""

from collections.abc import Iterable

import trio

from triocollect.collector.dispatch import fly
from triocollect.collector.fleet import Fleet
from triocollect.collector.set_out import Outset
from triocollect.events import Note
from triocollect.rows.types import Row


async def fly_all(fleet: Fleet, outset: Outset, *, longest_first: bool) -> None:
    """Send all rows that are left, until each has had its last word.

    Restored ones go first, the rest in input order; where nothing was restored, longest first if asked for.
    """
    survey = outset.survey
    async with trio.open_nursery() as nursery:
        if restored := frozenset(fleet.ledger.restored):
            await _feed(fleet, nursery, (row for row in outset.read_rows() if row.key in restored))
            rest = survey.left(outset.read_rows())
            await _feed(fleet, nursery, (row for row in rest if row.key not in restored))
        elif longest_first:
            await _feed(fleet, nursery, survey.longest_first(outset.read_rows()))
            rest = survey.left(outset.read_rows())
            await _feed(fleet, nursery, (row for row in rest if not survey.has_known_length(row.key)))
        else:
            await _feed(fleet, nursery, survey.left(outset.read_rows()))
    if fleet.cut_short:
        fleet.tell(Note("the dispatch budget is spent: rows are left for the next run", "warning"))


async def _feed(fleet: Fleet, nursery: trio.Nursery, rows: Iterable[Row]) -> None:
    for row in rows:
        await fleet.gate.enter(row.key)
        if fleet.is_over():
            fleet.gate.leave(row.key)
            return
        nursery.start_soon(fly, fleet, row)
