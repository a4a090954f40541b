"""What a start makes of what is there: which rows are done, and how the others go on."""

from fuzz.disk.demands import Started
from fuzz.starting import Begun, begin
from triocollect.checkpoint.plan import plan
from triocollect.config.settings import Config
from triocollect.flight.ledger import Ledger


def start(config: Config) -> Started:
    """And the folder of a first checkpoint. Raises what a start raises."""
    begun = begin(config)
    try:
        return _started(begun)
    finally:
        begun.close()


def _started(begun: Begun) -> Started:
    outset, left_behind = begun.outset, begun.inherited
    assert outset is not None
    assert left_behind is not None
    outset.record_directory()
    begun.store.begin(begun.store.next_sequence())
    whole, history = left_behind.rung.checkpoint, left_behind.history
    ledger = Ledger(history.highest(), floor=history.start)
    episodes = () if whole is None else whole.collection.continued
    becoming = plan(episodes, history.tried, floor=history.floor, start=history.start).becoming
    done, left = set[str](), dict[str, int]()
    for row in outset.read_rows():
        if outset.survey.is_left(row.key):
            continued = becoming.get(row.key)
            left[row.rollout_id] = ledger.next_attempt(row.key) if continued is None else continued.attempt
        else:
            done.add(row.rollout_id)
    return Started(
        done=frozenset(done),
        left=left,
        expected=outset.survey.expected,
        sequence=None if whole is None else whole.collection.sequence,
        continued=frozenset(one.rollout_id for one in becoming.values()),
        words=(*begun.told, *left_behind.warnings()),
    )
