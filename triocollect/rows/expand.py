"""One input row into the rows it stands for: routed, changed, numbered and repeated, in Gym's order. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from triocollect.config.settings import InputConfig, RoutingConfig
from triocollect.errors import ConfigError, UsageError
from triocollect.protocol.ids import RowKey
from triocollect.protocol.values import JsonObject
from triocollect.rows import steps
from triocollect.rows.ids import ROLLOUT_ID, RolloutIds, explicit_id
from triocollect.rows.numbers import ROLLOUT_INDEX, TASK_INDEX, RolloutNumbers, TaskNumbers, preset_task_index
from triocollect.rows.prompt import Prompt
from triocollect.rows.repeats import Repeats
from triocollect.rows.steps import AGENT_REF, ENVIRONMENT_SERVER, PARAMS, TASK_SOURCE
from triocollect.rows.types import Route

AgentOf = Callable[[str], str | None]


class Agents(NamedTuple):
    """Who knows agents that the data does not name. None: such rows stay as they are."""

    of_source: AgentOf | None = None  # by task_source
    of_server: AgentOf | None = None  # by environment server


class _Remembered:
    """A look-up that is asked once per name, where it refuses too."""

    def __init__(self, ask: AgentOf) -> None:
        self._ask: Final = ask
        self._answers: Final[dict[str, str | ConfigError | None]] = {}

    def __call__(self, name: str) -> str | None:
        """Raises ConfigError as the look-up did."""
        if name not in self._answers:
            try:
                self._answers[name] = self._ask(name)
            except ConfigError as refusal:
                self._answers[name] = refusal
        answer = self._answers[name]
        if isinstance(answer, ConfigError):
            raise ConfigError(*answer.problems)
        return answer


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
        self._settings, self._routing = settings, routing
        self._prompt, self._skills_ref = prompt, skills_ref
        self._agent_of_source = agents.of_source and _Remembered(agents.of_source)
        self._agent_of_server = agents.of_server and _Remembered(agents.of_server)
        self.tasks: Final = TaskNumbers(gym=settings.gym_task_numbering)
        self.repeats: Final = Repeats(settings.num_repeats)
        self.rollouts: Final = RolloutNumbers()
        self.ids: Final = RolloutIds()
        self.overridden: Final[set[tuple[str, str]]] = set()  # (agent in the data, agent in its place)

    def rows_of(self, row: JsonObject, line: int, digest: bytes) -> Iterator[tuple[Route, RowKey]]:
        """Change `row`, again for each row that it stands for, and yield where that one goes and its key.

        What is yielded describes `row` as it is at that moment. `digest` is the identity of its line. Raises
        UsageError for what is wrong with the row, ConfigError for what the look-ups refuse.
        """
        if self._prompt is not None:
            self._prompt.fill(row)
        agent, source, taskset = steps.agent_of(row), steps.text_of(row, TASK_SOURCE), steps.taskset_of(row)
        server = self._server_for(taskset)
        basis: str | None
        targets: Sequence[str | None]
        if server is not None:
            basis, targets = taskset or source or server, (None,)
        else:
            basis = source if agent is None else agent
            agent = self._mapped(row, agent, source)
            targets = self._targets(basis, agent)
        self._change(row, taskset)
        task = self._stamp(row, server, digest)
        rollout_id = explicit_id(row.get(ROLLOUT_ID))
        reference = row.get(AGENT_REF)
        for target in targets:
            repeats = self.repeats.of(target, basis)
            if target is not None:
                row[AGENT_REF] = reference if target == agent else {"name": target}
            for _ in range(repeats):
                key = RowKey(task, self.rollouts.next(task, line))
                self._number(row, key.rollout)
                if rollout_id is not None:
                    self.ids.add(rollout_id, key, line)
                yield self._route(row, source, taskset), key

    def _server_for(self, taskset: str | None) -> str | None:
        """The environment server that is settled now; None for a row that goes by its agent."""
        routing = self._routing
        if taskset is not None:
            if taskset not in routing.environment_server_routes:
                raise UsageError(
                    f"environment_server_routes has no environment server for taskset {taskset!r}"
                )
            return routing.environment_server_routes[taskset]
        if routing.mode == "taskset":
            raise UsageError(
                "taskset routing takes only rows with task_id.taskset and task_input; "
                "use environment_routing_mode=agent to mix them with flat rows"
            )
        return routing.environment_server_name if routing.mode == "legacy" else None

    def _mapped(self, row: JsonObject, agent: str | None, source: str | None) -> str | None:
        mapped = steps.mapped_agent(agent, source, self._settings.agent_map)
        if mapped is None:
            return agent
        if agent is not None and agent != mapped:
            self.overridden.add((agent, mapped))
        row[AGENT_REF] = {"name": mapped}
        return mapped

    def _targets(self, basis: str | None, agent: str | None) -> Sequence[str | None]:
        """The agents that get a copy each; None where task_source will tell. fan_out goes by the data."""
        if basis is not None and basis in self._settings.fan_out:
            return self._settings.fan_out[basis]
        if agent is None and basis is None:
            raise UsageError(
                "No agent specified: give --agent (or agent_map with a _default), "
                "or put agent_ref or task_source into the data"
            )
        return (agent,)

    def _change(self, row: JsonObject, taskset: str | None) -> None:
        """Overrides and skills; a materialised task takes neither."""
        if taskset is not None:
            self._refuse_changes()
            return
        params = steps.params_of(row)
        if self._settings.responses_create_params:
            row[PARAMS] = params | dict(self._settings.responses_create_params)
        if self._skills_ref is not None:
            row["skills_ref"] = self._skills_ref

    def _refuse_changes(self) -> None:
        settings = self._settings
        for field, is_set in (
            ("responses_create_params overrides are", bool(settings.responses_create_params)),
            ("run-level skills are", self._skills_ref is not None),
            ("num_repeats_add_seed is", settings.num_repeats_add_seed),
        ):
            if is_set:
                raise UsageError(f"{field} not supported for materialized task rows")

    def _stamp(self, row: JsonObject, server: str | None, digest: bytes) -> int:
        """Settle the task index and the environment server."""
        task = preset_task_index(row[TASK_INDEX]) if TASK_INDEX in row else self.tasks.index(digest)
        row[TASK_INDEX] = task
        if server is not None:
            row[ENVIRONMENT_SERVER] = server
        return task

    def _number(self, row: JsonObject, rollout: int) -> None:
        row[ROLLOUT_INDEX] = rollout
        if self._settings.num_repeats_add_seed:
            steps.add_seed(row, rollout)

    def _route(self, row: JsonObject, source: str | None, taskset: str | None) -> Route:
        """Where the row goes. An agent found out here is named last in the row."""
        agent, server = steps.agent_of(row), steps.text_of(row, ENVIRONMENT_SERVER)
        if agent is None and taskset is None:
            agent = self._agent_elsewhere(server, source)
            if agent is not None:
                row[AGENT_REF] = {"name": agent}
        return Route(server, agent, source, taskset, steps.is_task(row))

    def _agent_elsewhere(self, server: str | None, source: str | None) -> str | None:
        if server is not None:
            return None if self._agent_of_server is None else self._agent_of_server(server)
        if source is not None and self._agent_of_source is not None:
            return self._agent_of_source(source)
        return None
