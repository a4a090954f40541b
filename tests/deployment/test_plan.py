"""Which servers a set of rows needs, before anything is started."""

from pathlib import Path

import pytest
import yaml
from attrs import evolve

from triocollect.config.settings import ServersConfig
from triocollect.deployment.plan import SOURCES, Address, head_yaml, plan_for, settings_of
from triocollect.errors import ConfigError
from triocollect.servers.resources import app as resources


def the_names(plan):
    return [process.name for process in plan.processes]


def test_only_the_resources_servers_that_the_rows_name_are_started():
    plan = plan_for(["counter_agent", "numeric", "counter"], ServersConfig())
    assert the_names(plan) == ["environment", "agent", "policy_model", "inference", "numeric", "counter"]


def test_a_server_of_somebody_elses_is_told_of_and_not_started():
    servers = ServersConfig(peers={"dice": ("10.0.0.7", 9311), "counter": ("h", 80), "other": ("h", 81)})
    plan = plan_for(["dice", "counter_agent", "numeric"], servers)
    assert the_names(plan) == ["environment", "agent", "policy_model", "inference", "numeric"]
    addresses = {**dict.fromkeys(the_names(plan), Address("h", 1)), **plan.peers}
    environment, agent = (settings_of(plan, process, addresses) for process in plan.processes[:2])
    assert {name: one["resources_url"] for name, one in environment["sources"].items()} == {
        "numeric": "http://h:1",
        "counter": "http://h:80",
        "dice": "http://10.0.0.7:9311",
    }
    assert agent["agents"]["dice_agent"]["resources_url"] == "http://10.0.0.7:9311"
    dice = yaml.safe_load(environment["head"])["dice"]["resources_servers"]["dice"]
    assert (dice["host"], dice["port"]) == ("10.0.0.7", 9311)


def test_a_model_of_ones_own_needs_no_scripted_worker():
    servers = ServersConfig(model="m", model_url="http://gpu:8000/v1")
    plan = plan_for(["counter_environment"], servers)
    assert the_names(plan) == ["environment", "agent", "policy_model", "counter"]
    addresses = {name: Address("h", 1) for name in the_names(plan)}
    model = next(process for process in plan.processes if process.kind == "model")
    told = settings_of(plan, model, addresses, "key")
    where = {"worker_url": "http://gpu:8000/v1", "model": "m", "api_key": "key"}
    assert told == {**where, "cuts": "on", "worker_cuts": False, "backend": True}


def test_every_unknown_name_is_told_at_once_with_what_was_meant():
    with pytest.raises(ConfigError) as error:
        plan_for(["countr_agent", "numeric", "math"], ServersConfig())
    one, other = error.value.problems
    assert "'countr_agent'; did you mean 'counter_agent'?" in one
    assert "'math'" in other
    assert "did you mean" not in other


def test_the_names_before_the_start_are_those_after_it():
    plan = plan_for(SOURCES, ServersConfig())
    addresses = {name: Address("127.0.0.1", 1000 + n) for n, name in enumerate(the_names(plan))}
    before, after = yaml.safe_load(head_yaml()), yaml.safe_load(head_yaml(plan.sources, addresses))
    assert after.pop("head_server") == {"host": "127.0.0.1", "port": 1000}
    assert list(before) == list(after)
    for name, entry in after.items():
        ((kind, implementations),) = entry.items()
        ((implementation, fields),) = implementations.items()
        assert (fields.pop("host"), fields.pop("port") >= 1000) == ("127.0.0.1", True)
        assert before[name] == {kind: {implementation: fields}}


def test_the_head_says_who_fronts_whom():
    tree = yaml.safe_load(head_yaml(["counter"]))
    environment = tree["counter_environment"]["environment_servers"]["stepped"]
    assert environment["agent_server"] == {"type": "responses_api_agents", "name": "counter_agent"}
    agent = tree["counter_agent"]["responses_api_agents"]["tool_loop"]
    assert agent["resources_server"] == {"type": "resources_servers", "name": "counter"}
    assert agent["model_server"] == {"type": "responses_api_models", "name": "policy_model"}


def test_the_plan_knows_every_resources_server_there_is():
    assert set(SOURCES) == set(resources.SOURCES)


def test_effects_go_where_they_are_wanted():
    plan = evolve(plan_for(["counter"], ServersConfig()), effects_dir=Path("effects"))
    addresses = {name: Address("h", 1) for name in the_names(plan)}
    told = settings_of(plan, plan.processes[-1], addresses)
    assert told == {"name": "counter", "source": "counter", "effects_file": "effects/counter.jsonl"}
    worker = next(process for process in plan.processes if process.kind == "inference")
    assert settings_of(plan, worker, addresses)["calls_file"] == "effects/inference.jsonl"


@pytest.mark.parametrize("kind", ["environment", "agent", "model", "resources"])
def test_whoever_takes_part_in_checkpoints_is_told_where_and_by_which_token_and_nobody_else(kind):
    plan = plan_for(["counter"], ServersConfig())
    addresses = {name: Address("h", 1) for name in the_names(plan)}
    process = next(process for process in plan.processes if process.kind == kind)
    alone = settings_of(plan, process, addresses)
    told = settings_of(evolve(plan, checkpoint_dir=Path("ck"), control_token="t"), process, addresses)
    assert told == {**alone, "checkpoint": {"token": "t", "directory": "ck", "instance": process.name}}
    assert "checkpoint" not in alone


def test_the_scripted_worker_is_as_slow_as_the_plan_says_and_takes_no_part():
    plan = evolve(plan_for(["counter"], ServersConfig()), tokens_per_s=5.0, hold=True)
    plan = evolve(plan, checkpoint_dir=Path("ck"), control_token="t")
    worker = next(process for process in plan.processes if process.kind == "inference")
    told = {"tokens_per_s": 5.0, "hold": True, "calls_file": None}
    assert settings_of(plan, worker, {}) == {**told, "staging": "ck/staging"}
    assert settings_of(evolve(plan, cuts="off"), worker, {}) == {**told, "staging": None}


def test_a_plan_that_is_printed_does_not_tell_its_token():
    assert "s3cret" not in repr(evolve(plan_for(["counter"], ServersConfig()), control_token="s3cret"))


def test_an_address_of_ipv6_is_bracketed_in_its_url():
    assert [Address(host, 9).url for host in ("h", "::1")] == ["http://h:9", "http://[::1]:9"]
