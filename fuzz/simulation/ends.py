"""1 and 15 at the end of each life: a row has one success, and the report says of each how it stands."""

from fuzz.invariants import holds
from fuzz.simulation.reading import key_of


def check_results(lines: list[dict]) -> None:
    """All lines of the output."""
    keys = [key_of(line) for line in lines]
    holds(1, len(keys) == len(set(keys)), f"a row succeeded twice: {sorted(keys)}")


def check_report(report, rows: int, lines: list[dict], failures: list[dict]) -> None:
    """Of a run of so many rows: a row has a success, or else the failures that were written, or is left."""
    if report is None:
        return
    succeeded, failed = ({key for key in map(key_of, one) if key[0] < rows} for one in (lines, failures))
    failed -= succeeded
    told = (report.expected, report.succeeded, report.failed, report.left)
    there = (rows, len(succeeded), len(failed), rows - len(succeeded) - len(failed))
    holds(15, told == there, f"expected, succeeded, failed and left are {there}, the report says {told}")


def check_all_ended(rows: int, lines: list[dict], failures: list[dict]) -> None:
    """After a life that nobody disturbed."""
    failed = {key_of(line): line for line in failures}
    missing = {(number, 0) for number in range(rows)} - {key_of(line) for line in lines}
    holds(1, not missing, f"rows without a result: {[(key, failed.get(key)) for key in sorted(missing)]}")
