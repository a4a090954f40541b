"""The embedded deployment: which servers a set of rows needs, and the processes that they are.

`head_yaml()` names every instance there can be, for routing before anything is started; `plan_for` decides
what the rows need; `deploy` starts it and tells the head's address, which is asked like any other head.
"""

from triocollect.deployment.plan import SOURCES, Plan, head_yaml, plan_for
from triocollect.deployment.processes import deploy
from triocollect.deployment.serving import serve_all, standing_plan

__all__ = ["SOURCES", "Plan", "deploy", "head_yaml", "plan_for", "serve_all", "standing_plan"]
