"""What is wrong with the rows of a file, gathered until its end so that all of it is said at once."""

from typing import Final, NamedTuple

from triocollect.errors import InputError

_NAMED: Final = 20  # places of one problem, and problems, that are said one by one


class RowPlace(NamedTuple):
    """Where a row is in its file."""

    line: int  # physical, from 1
    offset: int  # its first byte, from 0
    row: int  # among the rows, from 0: Gym's number


class _RowPlaces:
    """Where one problem shows: the first places, and how many there are."""

    def __init__(self) -> None:
        self.first: Final[list[RowPlace]] = []
        self.count = 0

    def add(self, place: RowPlace) -> None:
        self.count += 1
        if len(self.first) < _NAMED:
            self.first.append(place)

    def __str__(self) -> str:
        lines = [str(place.line) for place in self.first]
        rows = ", ".join(str(place.row) for place in self.first)
        if self.count == 1:
            return f"line {lines[0]} (row {rows})"
        if self.count > len(lines):
            more = f"{self.count - len(lines)} more"
            return f"lines {', '.join(lines)} and {more} (rows [{rows}, …])"
        return f"lines {', '.join(lines[:-1])} and {lines[-1]} (rows [{rows}])"


class Problems:
    """Problems and their places. The memory is bounded, however many rows are wrong."""

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._places: Final[dict[str, _RowPlaces]] = {}

    def add(self, problem: str, place: RowPlace) -> None:
        """One more row has this problem, which is a sentence that says what to do."""
        self._places.setdefault(problem, _RowPlaces()).add(place)

    @property
    def full(self) -> bool:
        """Whether there are more kinds of problems than anyone wants to read."""
        return len(self._places) >= _NAMED

    def told(self) -> list[str]:
        """One sentence per problem, each with its lines and rows."""
        return [f"{places}: {problem}" for problem, places in self._places.items()]

    def raise_any(self) -> None:
        """Raises InputError with every problem, if there is one."""
        if len(self._places) == 1:
            ((problem, places),) = self._places.items()
            if places.count == 1:
                (place,) = places.first
                raise InputError(
                    f"row {place.row}: {problem}", path=self._path, line=place.line, offset=place.offset
                )
        if self._places:
            raise InputError("\n".join(self.told()), path=self._path)
