"""One input row into the rows it stands for: routed, changed, numbered and repeated, in Gym's order. Pure."""

from collections.abc import Iterator
from typing import Final

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.errors import UsageError
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import JsonObject
from triocollect.rows import steps
from triocollect.rows.ids import ROLLOUT_ID, RolloutIds, explicit_id
from triocollect.rows.numbers import ROLLOUT_INDEX, TASK_INDEX, RolloutNumbers, TaskNumbers, preset_task_index
from triocollect.rows.prompt import Prompt
from triocollect.rows.steps import AGENT_REF, ENVIRONMENT_SERVER, PARAMS
from triocollect.rows.ways import Agents, Ways


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

    def rows_of(self, row: JsonObject, line: int, digest: bytes) -> Iterator[int]:
        """Change `row`, again for each row that it stands for, and yield the rollout index of that one.

        `row` is then as it is to be sent, until the next one is asked for. `digest` is the identity of its
        line. Raises UsageError for what is wrong with the row, ConfigError for what the look-ups refuse.
        """
        if self._prompt is not None:
            self._prompt.fill(row)
        names = steps.names_of(row)
        way = self.ways.of(names)
        if way.agent is not None:
            row[AGENT_REF] = {"name": way.agent}
        self._change(row, taskset=names[2])
        task = self._stamp(row, way.server, digest)
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
                yield rollout

    def _change(self, row: JsonObject, *, taskset: str | None) -> None:
        """Overrides and skills; a materialised task takes neither."""
        if taskset is not None:
            self._refuse_changes()
            return
        params = steps.params_of(row)
        if self._overrides:
            row[PARAMS] = params | self._overrides
        if self._skills_ref is not None:
            row["skills_ref"] = self._skills_ref

    def _refuse_changes(self) -> None:
        for field, is_set in (
            ("responses_create_params overrides are", bool(self._overrides)),
            ("run-level skills are", self._skills_ref is not None),
            ("num_repeats_add_seed is", self._seeded),
        ):
            if is_set:
                raise UsageError(f"{field} not supported for materialized task rows")

    def _stamp(self, row: JsonObject, server: str | None, digest: bytes) -> int:
        """Settle the task index and the environment server; returns the task index."""
        task = preset_task_index(row[TASK_INDEX]) if TASK_INDEX in row else self.tasks.index(digest)
        row[TASK_INDEX] = task
        if server is not None:
            row[ENVIRONMENT_SERVER] = server
        return task
