"""What is asked between any two steps of a simulated run."""

import trio


class EachStep(trio.abc.Instrument):
    """What is asked after every step of every task."""

    def __init__(self, oracle):
        self._oracle = oracle
        self.closed_with: frozenset | None = None

    def after_task_step(self, task):
        servers = self._oracle.servers
        process = servers and servers.processes.get("environment")
        if not process:
            return
        episodes = process.hooks
        if not episodes.admission.closed:
            self.closed_with = None
            return
        now = frozenset(episodes.under_way)
        if self.closed_with is not None and not now <= self.closed_with:
            self._oracle.faults.append(f"5: {set(now - self.closed_with)} began while closed")
        self.closed_with = now
