"""Which agent runs a data set."""

import pytest

from triocollect.errors import ConfigError
from triocollect.gym.config_tree import parse_config
from triocollect.gym.sources import agent_of_source, did_you_mean, rejected_pairing

CONFIG = """
one: {responses_api_agents: {simple: {resources_server: {name: quiz}}}}
two: {responses_api_agents: {simple: {resources_server: {name: shared}}}}
three: {responses_api_agents: {careful: {resources_server: {name: shared}}}}
selfish: {responses_api_agents: {simple: {datasets: [{agent: one}]}}}
quiz: {resources_servers: {q: {datasets: [{name: a}, {name: b}]}}}
shared: {resources_servers: {s: {}}}
pinned: {resources_servers: {p: {datasets: [{agent: four}]}}}
four: {responses_api_agents: {simple: {resources_server: {name: pinned}}}}
five: {responses_api_agents: {simple: {resources_server: {name: pinned}}}}
strayed: {resources_servers: {p: {datasets: [{agent: one}]}}}
torn: {resources_servers: {p: {datasets: [{agent: one}, {agent: two}, {agent: one}]}}}
lonely: {resources_servers: {l: {}}}
relay: {environment_servers: {legacy_agent: {agent_server: {name: one}}}}
limit: 5
"""


@pytest.mark.parametrize(("source", "agent"), [("one", "one"), ("quiz", "one"), ("pinned", "four")])
def test_a_source_leads_to_one_agent(source: str, agent: str) -> None:
    assert agent_of_source(parse_config(CONFIG), source) == agent


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("lonely", "one agent must be bound to this resources server, there are 0 (none)"),
        ("shared", "one agent must be bound to this resources server, there are 2 (two, three)"),
        ("torn", "its data sets pin several agents (one, two)"),
        ("strayed", "pins agent 'one', which is not bound to this resources server; bound to it: none"),
        ("selfish", "this agent's data set pins another agent, 'one'"),
        ("relay", "one of the environment_servers"),
        ("limit", "not a server of the config"),
        ("loneli", "not in the config (did you mean 'lonely'?)"),
    ],
)
def test_a_source_that_leads_nowhere_or_everywhere_is_explained(source: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        agent_of_source(parse_config(CONFIG), source)
    assert str(refused.value).startswith(f"task_source {source!r}: ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("allowed", "rejected"), [("[careful]", 1), ("careful", 1), ("[simple, careful]", 0), ("[]", 0), ("", 0)]
)
def test_a_verifier_says_which_implementations_it_accepts(allowed: str, rejected: int) -> None:
    config = parse_config(CONFIG.replace("{s: {}}", f"{{s: {{allowed_agents: {allowed}}}}}"))
    assert len(rejected_pairing(config, "two", None)) == rejected
    assert rejected_pairing(config, "one", None) == []
    assert len(rejected_pairing(config, "one", "shared")) == rejected


def test_allowed_agents_must_be_a_list() -> None:
    config = parse_config(CONFIG.replace("{s: {}}", "{s: {allowed_agents: 7}}"))
    with pytest.raises(ConfigError, match="server 'shared': allowed_agents must be a list"):
        rejected_pairing(config, "two", None)


def test_allowed_agents_are_names_and_nothing_that_holds_more() -> None:
    text = CONFIG.replace(
        "quiz: {resources_servers: {q: {", "quiz: {resources_servers: {q: {allowed_agents: [[a]], "
    )
    with pytest.raises(ConfigError, match="must be a list"):
        rejected_pairing(parse_config(text), "one", "quiz")


def test_a_name_is_not_compared_with_thousands() -> None:
    assert did_you_mean("agent_", ["agent"]) == " (did you mean 'agent'?)"
    assert did_you_mean("agent_", [f"agent{i}" for i in range(5000)]) == ""
