"""How far a life has come in what is drawn for it, so that the next trouble comes behind the one before."""

import math
import random
from typing import Final

from attrs import astuple, define, field

from fuzz.simulation.story import Moment, Of, Story


@define
class _Length:
    """How many a life has: until its first row, more for a restore, in a checkpoint, after the rows."""

    start: int
    restore: int
    checkpoint: int
    end: int


_LENGTHS: Final[dict[Of, _Length]] = {
    "controls": _Length(start=5, restore=3, checkpoint=3, end=1),  # for each participant
    "syncs": _Length(start=12, restore=1, checkpoint=44, end=6),
    "files": _Length(start=34, restore=2, checkpoint=78, end=12),
}
_BESIDE_ROWS: Final = tuple(_LENGTHS)
_AT_THE_START: Final = 0.15
_ROW: Final = 12  # answers of a rollout, beside those of its changes
_CHANGE: Final = 3
_CHECKPOINT: Final = 4  # answers that rows may get until all are at boundaries


@define
class Course:
    """Of one life with so many rows. `kept`: how many answers of all of them a checkpoint keeps."""

    dice: random.Random
    story: Story
    rows: int
    kept: int = 0
    answers: int = 0  # since it began
    checkpoints: int = 0
    _within: float = 0.0  # how much of the last one is over
    _sent: int = 0  # rows
    _restores: bool = field(init=False)
    _left: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._restores = self.kept > 0
        self._left = max(2, self.rows * self._row - self.kept)

    @property
    def _row(self) -> int:
        return _ROW + _CHANGE * self.story.changes

    @property
    def has_rows_to_send(self) -> bool:
        return self._sent < self.rows

    def row_begins(self) -> int:
        """The number of one."""
        self._sent = self.dice.randint(self._sent + 1, self.rows)
        return self._sent

    def loses_row(self) -> None:
        """One fails, and is not sent again."""
        self.rows -= 1
        self._left -= self._row

    def cuts(self) -> None:
        """A checkpoint is asked for."""
        self.checkpoints, self._within = self.checkpoints + 1, 0.0
        self.kept += self.answers
        self._pass(_CHECKPOINT)

    def moment(self) -> Moment:
        """The next one: before the rows, in the checkpoint that was asked for last, or amid the rows."""
        if not (self.answers or self.checkpoints) and self.dice.random() < _AT_THE_START:
            of = self.dice.choice(_BESIDE_ROWS)
            return Moment(self.dice.randint(1, self._start(of)), of)
        if self._left < 2 or (self.checkpoints and self._within < 0.8 and self.dice.random() < 0.8):
            return self.beside_rows(self.dice.choice(_BESIDE_ROWS))
        return self.answer()

    def answer(self) -> Moment:
        """The next amid the rows."""
        self._pass(self.dice.randint(1, max(1, self._left // 3)))
        return Moment(self.answers, "answers")

    def _pass(self, answers: int) -> None:
        self.answers += answers
        self._left -= answers

    def beside_rows(self, of: Of) -> Moment:
        """The next in the last checkpoint; without one behind the rows."""
        length, begun = self._length(of), self._start(of)
        if not self.checkpoints:
            return Moment(begun + self.dice.randint(1, length.end), of)
        self._within += (1 - self._within) * self.dice.random()
        begun += (self.checkpoints - 1) * length.checkpoint
        return Moment(begun + math.ceil(self._within * length.checkpoint), of)

    def _start(self, of: Of) -> int:
        length = self._length(of)
        return length.start + (length.restore if self._restores else 0)

    def _length(self, of: Of) -> _Length:
        length, each = _LENGTHS[of], 5 if self.story.mixed else 4
        if of != "controls":
            return length
        return _Length(*(each * one for one in astuple(length)))
