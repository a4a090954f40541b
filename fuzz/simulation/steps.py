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
        began = now - self.closed_with if self.closed_with is not None else None
        self._oracle.holds(5, not began, f"{began} began while closed")
        self.closed_with = now
