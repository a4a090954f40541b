"""No attempt flies twice, whatever happens to a row."""

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fuzz.invariants import holds
from triocollect.flight.ledger import Ledger
from triocollect.protocol.ids import EpisodeId, RowKey

keys = st.builds(RowKey, st.integers(0, 2), st.integers(0, 1))


class Lives(RuleBasedStateMachine):
    """Several runs over one data set; a crash keeps what was written and what is known to be used."""

    def __init__(self):
        super().__init__()
        self.ledger, self.arrived, self.done = Ledger(), set[EpisodeId](), set[RowKey]()

    @rule(key=keys)
    def start(self, key):
        if key in self.ledger.flying or key in self.done:
            return
        expected = self.ledger.next_attempt(key)
        episode = self.ledger.start(key, str(key))
        holds(2, episode.attempt == expected, f"{episode} flies, and {expected} was the next")
        holds(2, episode not in self.arrived, f"{episode} flies twice")

    def land(self, nth):
        return sorted(self.ledger.flying)[nth % len(self.ledger.flying)]

    @precondition(lambda self: self.ledger.flying)
    @rule(nth=st.integers(0, 5))
    def nothing_arrived(self, nth):
        key = self.land(nth)
        continuing, torn, episode = (
            key in self.ledger.continuing,
            key in self.ledger.torn,
            self.ledger.flying[key],
        )
        self.ledger.nothing_ran(key)
        kept = key in self.ledger.restored
        holds(10, kept == (continuing and not torn), f"{episode} did not begin; it is still restored: {kept}")
        if not (continuing and torn):
            following = self.ledger.next_attempt(key)
            holds(2, following == episode.attempt, f"nothing of {episode} ran, and {following} is next")

    @precondition(lambda self: self.ledger.flying)
    @rule(nth=st.integers(0, 5))
    def no_reply(self, nth):
        key = self.land(nth)
        self.arrived.add(self.ledger.flying[key])
        self.ledger.no_reply(key)
        holds(7, key in self.ledger.lost, f"{key} brought no reply, and nobody will retire it")

    @precondition(lambda self: self.ledger.flying)
    @rule(nth=st.integers(0, 5))
    def replied(self, nth):
        key = self.land(nth)
        self.arrived.add(self.ledger.flying[key])
        self.done.add(key)
        self.ledger.replied(key)
        holds(7, key not in self.ledger.lost, f"{key} replied, and is to be retired")

    @rule()
    def a_participant_restarts(self):
        flying, restored = set(self.ledger.flying), dict(self.ledger.restored)
        self.ledger.tear("it restarted")
        holds(13, set(self.ledger.torn) == flying, f"{flying} fly without a part; torn: {self.ledger.torn}")
        holds(13, not self.ledger.restored, "what was restored there is to be continued")
        holds(7, restored.items() <= self.ledger.lost.items(), "what was restored is not to be retired")

    @precondition(lambda self: self.ledger.lost)
    @rule(nth=st.integers(0, 5))
    def one_is_retired(self, nth):
        key = sorted(self.ledger.lost)[nth % len(self.ledger.lost)]
        self.ledger.retired({key: EpisodeId(str(key), 99)})
        holds(7, key in self.ledger.lost, "another attempt was retired, and it counts as this one")
        self.ledger.retired({key: self.ledger.lost[key]})
        holds(7, key not in self.ledger.lost, "it was retired, and is to be retired again")

    @rule(data=st.data())
    def crash(self, data):
        self.arrived |= set(self.ledger.flying.values())
        tried = {}
        for episode in self.arrived:
            key = RowKey(*map(int, episode.rollout_id.split("-")))
            if key not in self.done:
                tried[key] = max(episode.attempt, tried.get(key, 0))
        restored = data.draw(st.sets(st.sampled_from(sorted(tried)))) if tried else set()
        self.ledger = Ledger(tried)
        self.ledger.restore((key, EpisodeId(str(key), tried[key] + 1)) for key in sorted(restored))

    @invariant()
    def what_would_be_continued_is_what_can_still_arrive(self):
        standing = {*self.ledger.flying.values(), *self.ledger.restored.values()}
        holds(6, self.ledger.scope() == standing, f"the scope is {self.ledger.scope()}, not {standing}")
        done = {episode for episode in standing if episode.rollout_id in set(map(str, self.done))}
        holds(1, not done, f"{done} replied, and may still arrive")

    @invariant()
    def what_is_said_of_rows_in_flight_is_said_of_no_others(self):
        told = {*self.ledger.torn, *self.ledger.continuing}
        holds(6, told <= set(self.ledger.flying), f"{told} are said to be in flight")


TestLives = Lives.TestCase
