"""Several workers behind one port, one participant: a coordinator answers for them all.

Every rollout has its owner among the workers (`owner_of`), which keeps all of its state; whoever else gets a
request of it passes it on. The coordinator speaks the protocol, and a worker does what it says: they are
joined by a link, over which whole frames go in order, a socket between two processes as a rule.

`Coordinator` has the hooks of the control plane, and asks the workers; `Member` is its other end in a worker,
and drives that worker's own hooks and admission. `Crew` decides which reports count, what blocks, and who is
a restart.
"""

from triocollect.participant.workers.coordinator import Coordinator
from triocollect.participant.workers.link import Link
from triocollect.participant.workers.member import Member
from triocollect.participant.workers.owner import owner_of

__all__ = ["Coordinator", "Link", "Member", "owner_of"]
