"""What tests that name their stories have in common."""

from fuzz.simulation.explore import told
from fuzz.simulation.lives import Lived
from fuzz.simulation.story import Life, Moment, Signal, Story

STOPPED = Life(signals=(Signal(Moment(8, "answers"), "TERM"),))
CUT = Signal(Moment(8, "answers"), "USR1")
SLOW_CONTROL = {"tokens_per_s": 2.0, "control_ms": 100, "latency_ms": 20}


def lives_of(*lives: Life, rows: int = 2, concurrency: int = 256, **more) -> Lived:
    """How it went."""
    return told(Story(rows, concurrency, lives=lives, **more))


def words_of(first: str, *lives: Life, **more) -> range:
    """The numbers of what participants answer in the last life, from the first such word on."""
    controls = lives_of(*lives, **more).lives[len(lives) - 1].controls
    kinds = [place.rpartition(" ")[2] for place in controls]
    begin = kinds.index(first)
    return range(
        begin + 1, 1 + next((at for at in range(begin, len(kinds)) if kinds[at] == "forget"), len(kinds))
    )


def struck(lived: Lived, kind: str) -> list[str]:
    """Where that happened."""
    return [place for living in lived.lives for what, place in living.struck if what == kind]
