"""What servers in tests export: for each episode a state, as it is."""

from triocollect.participant import Record, encode_state


def records_of(kind, states, scope):
    """Records of those episodes of the scope that have a state."""
    return [
        Record(
            rollout_id=one.rollout_id, attempt=one.attempt, kind=kind, state=encode_state(one, states[one])
        )
        for one in sorted(scope & states.keys())
    ]
