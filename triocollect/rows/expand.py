"""One input row into the rows it stands for: routed, changed, numbered and repeated, in Gym's order. Pure."""

from collections.abc import Callable
from typing import Final, TypeAlias

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.errors import UsageError
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import JsonObject
from triocollect.rows import steps
from triocollect.rows.ids import ROLLOUT_ID, RolloutIds, explicit_id
from triocollect.rows.numbers import ROLLOUT_INDEX, TASK_INDEX, RolloutNumbers, TaskNumbers, preset_task_index
from triocollect.rows.prompt import Prompt
from triocollect.rows.steps import AGENT_REF, ENVIRONMENT_SERVER, PARAMS
from triocollect.rows.ways import Agents, Way, Ways

Add: TypeAlias = Callable[[JsonObject, int], None]


class Expansion:
    """The rules of one run, and the numbers given out so far."""

    def __init__(
        self,
        settings: InputConfig,
        routing: RoutingConfig,
        agents: Agents,
        *,
        prompt: Prompt | None = None,
        skills_ref: JsonObject | None = None,
    ) -> None:
        self._prompt, self._skills_ref = prompt, skills_ref
        self._overrides, self._seeded = dict(settings.responses_create_params), settings.num_repeats_add_seed
        self.ways: Final = Ways(settings, routing, agents)
        self.tasks: Final = TaskNumbers(gym=settings.gym_task_numbering)
        self.rollouts: Final = RolloutNumbers()
        self.ids: Final = RolloutIds()

    def expand(self, row: JsonObject, line: int, digest: bytes, add: Add) -> None:
        """Change `row`, again for each row that it stands for, and `add` it with that one's rollout index.

        `row` is then as it is to be sent, until `add` returns. `digest` is the identity of its line.
        Raises UsageError for what is wrong with the row, ConfigError for what the look-ups refuse.
        """
        if self._prompt is not None:
            self._prompt.fill(row)
        names = steps.names_of(row)
        way = self.ways.of(names)
        if way.agent is not None:
            row[AGENT_REF] = {"name": way.agent}
        if names[2] is None:
            self._change(row)
        else:
            self._refuse_changes()
        row[TASK_INDEX] = task = (
            preset_task_index(row[TASK_INDEX]) if TASK_INDEX in row else self.tasks.index(digest)
        )
        if way.server is not None:
            row[ENVIRONMENT_SERVER] = way.server
        self._repeat(row, way, task, line, add)

    def _repeat(self, row: JsonObject, way: Way, task: int, line: int, add: Add) -> None:
        rollout_id = explicit_id(row[ROLLOUT_ID]) if ROLLOUT_ID in row else None
        reference = row.get(AGENT_REF)
        for copy in way.copies:
            copy.rows += copy.repeats
            if copy.agent is not None:
                row[AGENT_REF] = {"name": copy.agent}
            elif reference is not None:
                row[AGENT_REF] = reference
            for _ in range(copy.repeats):
                row[ROLLOUT_INDEX] = rollout = self.rollouts.next(task, line)
                if copy.found is not None:
                    row[AGENT_REF] = {"name": copy.found}
                if self._seeded:
                    steps.add_seed(row, rollout)
                if rollout_id is not None:
                    self.ids.add(rollout_id, RowKey(task, rollout), line)
                add(row, rollout)

    def _change(self, row: JsonObject) -> None:
        """Overrides and skills."""
        params = steps.params_of(row)
        if self._overrides:
            row[PARAMS] = params | self._overrides
        if self._skills_ref is not None:
            row["skills_ref"] = self._skills_ref

    def _refuse_changes(self) -> None:
        """A materialised task takes none."""
        for field, is_set in (
            ("responses_create_params overrides are", bool(self._overrides)),
            ("run-level skills are", self._skills_ref is not None),
            ("num_repeats_add_seed is", self._seeded),
        ):
            if is_set:
                raise UsageError(f"{field} not supported for materialized task rows")
