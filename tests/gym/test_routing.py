"""Which server gets a row."""

import pytest

from tests.gym.rows_of import a_row, a_task
from triocollect.config.settings import RoutingConfig
from triocollect.errors import ConfigError
from triocollect.gym.config_tree import parse_config
from triocollect.gym.routing import Router, Scorer, SingleServer, Target
from triocollect.rows.types import Route

CONFIG = """
relay: {environment_servers: {legacy_agent: {agent_server: {name: harness}, host: h, port: 1}}}
turns:
  environment_servers:
    single_agent_turn:
      agent_server: {type: responses_api_agents, name: walker}
      resources_server: {type: resources_servers, name: maze}
      host: h
      port: 2
duo_one: {environment_servers: {legacy_agent: {agent_server: {name: duo}, host: h, port: 3}}}
duo_two: {environment_servers: {legacy_agent: {agent_server: {name: duo}, host: h, port: 4}}}
adrift: {environment_servers: {legacy_agent: {agent_server: {name: castaway}, host: '${isle}', port: 5}}}
harness: {responses_api_agents: {simple_agent: {resources_server: {name: quiz}, host: h, port: 11}}}
walker: {responses_api_agents: {session_agent: {resources_server: {name: maze}, host: h, port: 12}}}
duo: {responses_api_agents: {simple_agent: {host: h, port: 13}}}
hermit: {responses_api_agents: {simple_agent: {host: h, port: 14}}}
castaway: {responses_api_agents: {simple_agent: {host: h, port: 15}}}
quiz: {resources_servers: {quiz: {host: h, port: 21}}}
maze: {resources_servers: {maze: {allowed_agents: [session_agent], host: h, port: 22}}}
policy_model: {responses_api_models: {openai_model: {host: h, port: 31}}}
policy_base_url: http://x
"""
RELAY = Target("http://h:1", "relay", "legacy_agent")
TURNS = Target("http://h:2", "turns", "single_agent_turn")


def a_router(
    *, config: str = CONFIG, waived: bool = False, mode: str = "agent", server: str | None = None
) -> Router:
    routing = RoutingConfig(
        mode=mode,  # type: ignore[arg-type]
        environment_server_name=server,
        environment_server_routes={"weather": "turns", "lost": "nowhere"},
    )
    return Router(parse_config(config), routing, allow_unsupported_pairing=waived)


def problems(*routes: Route, router: Router | None = None) -> list[str]:
    try:
        (router or a_router()).check(routes)
    except ConfigError as fault:
        return list(fault.problems)
    return []


def test_a_flat_row_goes_to_the_one_server_that_fronts_its_agent() -> None:
    row = a_row(agent_ref={"name": "harness", "type": "responses_api_agents"})
    assert a_router().target(row) == RELAY
    assert problems(Route(agent="harness")) == []


def test_a_row_of_a_source_goes_the_way_of_the_sources_agent() -> None:
    router = a_router()
    assert router.target(a_row(task_source="quiz")) == RELAY
    assert router.target(a_row(task_source="maze")) == TURNS
    assert problems(Route(source="quiz"), Route(source="maze")) == []


def test_a_stamped_row_goes_to_the_server_it_names() -> None:
    router = a_router()
    for name in ("duo_two", "duo_one"):
        row = a_row(agent_ref={"name": "duo"}, _ng_environment_server=name)
        assert router.target(row).server == name
    assert problems(Route(server="duo_two", agent="duo")) == []


def test_a_task_goes_the_way_of_its_taskset_in_every_mode() -> None:
    for mode in ("agent", "legacy", "taskset"):
        router = a_router(mode=mode, server="relay")
        assert router.target(a_task()) == TURNS
        assert problems(Route(taskset="weather", is_task=True), router=router) == []


def test_a_task_without_a_taskset_is_routed_as_a_flat_row() -> None:
    assert a_router().target(a_task(taskset="", agent_ref={"name": "harness"})) == RELAY


def test_in_legacy_mode_every_flat_row_goes_to_one_server() -> None:
    router = a_router(mode="legacy", server="relay")
    assert router.target(a_row()) == RELAY
    assert problems(Route(), router=router) == []
    assert router.agent_of_server("relay") == "harness"


def test_the_same_kind_of_row_is_resolved_once() -> None:
    router = a_router()
    first, second = (router.target(a_row(agent_ref={"name": "harness"}, question=n)) for n in range(2))
    assert first is second


def test_rows_that_say_more_of_their_agent_than_its_name_are_of_the_same_kind() -> None:
    router = a_router()
    rows = [a_row(agent_ref={"name": "harness", "seed": n}, task_source="quiz") for n in range(2)]
    assert router.target(rows[0]) is router.target(rows[1])


@pytest.mark.parametrize(
    ("route", "says"),
    [
        (Route(agent="harnes"), "agent 'harnes' is not in the running config (did you mean 'harness'?)"),
        (Route(agent="quiz"), "agent 'quiz' is not in the running config (it is there, but is no agent)"),
        (Route(agent="hermit"), "agent 'hermit' has no environment server"),
        (Route(agent="duo"), "fronted by several environment servers (duo_one, duo_two)"),
        (
            Route(agent="castaway"),
            "server 'adrift' has no usable address: ${isle}: the config has no such key",
        ),
        (
            Route(server="relai"),
            "environment server 'relai' is not in the running config (did you mean 'relay'?)",
        ),
        (
            Route(server="relay", agent="walker"),
            "'walker' is not an agent of environment server 'relay' (harness)",
        ),
        (
            Route(server="turns", source="quiz"),
            "task_source 'quiz' is not the resources server of environment",
        ),
        (Route(source="qiz"), "task_source 'qiz': not in the config (did you mean 'quiz'?)"),
        (Route(), "some rows name neither an agent nor a task_source"),
        (Route(taskset="moon", is_task=True), "no environment server route for taskset 'moon'"),
        (Route(taskset="lost", is_task=True), "environment server 'nowhere' is not in the running config"),
        (
            Route(agent="harness", source="maze"),
            "run 'simple_agent', but their task_source 'maze' accepts only",
        ),
    ],
)
def test_a_row_that_cannot_be_sent_is_explained_before_anything_is_sent(route: Route, says: str) -> None:
    (problem,) = problems(route)
    assert says in problem


def test_all_problems_are_told_at_once_and_each_once() -> None:
    found = problems(
        Route(agent="hermit"), Route(agent="hermit", source="quiz"), Route(agent="ghost"), Route()
    )
    assert [problem[:14] for problem in found] == ["agent 'hermit'", "agent 'ghost' ", "some rows name"]


def test_flat_rows_are_an_error_in_taskset_mode() -> None:
    (problem,) = problems(Route(agent="harness"), router=a_router(mode="taskset"))
    assert "taskset routing takes only rows with task_id.taskset and task_input" in problem


def test_legacy_mode_needs_the_name_of_its_server() -> None:
    (problem,) = problems(Route(agent="harness"), router=a_router(mode="legacy"))
    assert "environment_server_name" in problem


def test_an_environment_server_is_held_to_the_pairing_of_what_it_binds() -> None:
    config = CONFIG.replace("allowed_agents: [session_agent]", "allowed_agents: other_agent")
    (problem,) = problems(Route(taskset="weather", is_task=True), router=a_router(config=config))
    assert (
        "rows of agent 'walker' run 'session_agent', but its resources server 'maze' accepts only other_agent"
        in problem
    )


def test_the_pairing_check_has_three_waivers() -> None:
    unfit = Route(agent="harness", source="maze")
    waived_by_settings = Router(parse_config(CONFIG), RoutingConfig(allow_unsupported_pairing=True))
    waived_by_head = a_router(config=CONFIG + "allow_unsupported_pairing: true")
    for router in (a_router(waived=True), waived_by_settings, waived_by_head):
        assert problems(unfit, router=router) == []
    assert len(problems(unfit)) == 1


def test_a_config_without_environment_servers_is_an_older_gym_and_agents_are_asked_themselves() -> None:
    config = "harness: {responses_api_agents: {simple_agent: {host: h, port: 11}}}"
    router = a_router(config=config)
    assert router.target(a_row(agent_ref={"name": "harness"})) == Target("http://h:11")
    assert problems(Route(agent="harness"), router=router) == []
    assert router.scorer(None, "harness") == Scorer(Target("http://h:11"), "harness")
    assert len(problems(Route(agent="ghost"), router=router)) == 1


def test_a_record_is_scored_by_the_server_it_is_stamped_with_else_by_its_agents() -> None:
    router = a_router()
    assert router.scorer("duo_two", "duo") == Scorer(
        router.target(a_row(_ng_environment_server="duo_two")), "duo"
    )
    assert router.scorer("turns", None) == Scorer(TURNS, "walker")
    assert router.scorer(None, "harness") == Scorer(RELAY, "harness")
    with pytest.raises(ConfigError, match=r"stamped with environment server 'turn', .*did you mean 'turns'"):
        router.scorer("turn", "walker")


def test_a_rollout_has_parts_in_the_agent_and_the_resources_server_behind_its_environment() -> None:
    router = a_router()
    assert router.below(RELAY) == {"harness": "http://h:11", "quiz": "http://h:21"}
    assert router.below(TURNS) == {"walker": "http://h:12", "maze": "http://h:22"}
    assert router.below(router.target(a_row(_ng_environment_server="duo_two"))) == {"duo": "http://h:13"}
    fields = "{resources_server: {name: quiz}, host: h, port: 1}"
    older = a_router(
        config=f"harness: {{responses_api_agents: {{simple_agent: {fields}}}}}\n"
        "quiz: {resources_servers: {quiz: {host: h, port: 2}}}"
    )
    assert older.below(older.target(a_row(agent_ref={"name": "harness"}))) == {"quiz": "http://h:2"}
    assert SingleServer("http://h:9/").below(Target("http://h:9")) == {}


def test_a_single_server_takes_all_rows_and_stamps_nothing() -> None:
    single = SingleServer("http://h:9/")
    single.check([Route(), Route(agent="anybody")])
    assert single.target(a_row()) == Target("http://h:9")
    assert single.scorer("anything", "harness") == Scorer(Target("http://h:9"), "harness")
