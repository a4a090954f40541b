"""Reading the config that a head server hands out."""

import pytest

from triocollect.errors import ConfigError
from triocollect.gym.config_tree import MAX_CONFIG_BYTES, parse_config

LEGACY = """
relay:
  environment_servers:
    legacy_agent:
      agent_server: {name: harness}
      user: {type: responses_api_agents, name: customer}
      resources_server: {type: resources_servers, name: verifier}
      host: 127.0.0.1
      port: 11103
"""


def a_server(host: str, port: str = "1") -> str:
    return f"e:\n  environment_servers:\n    legacy_agent:\n      host: {host}\n      port: {port}\n"


def test_a_server_is_its_names_its_address_and_what_it_is_bound_to() -> None:
    server = parse_config(LEGACY).servers["relay"]
    assert (server.kind, server.implementation) == ("environment_servers", "legacy_agent")
    assert server.url == "http://127.0.0.1:11103"
    assert server.agents == ("harness", "customer")
    assert server.attributed == "harness"
    assert server.resources == "verifier"


def test_an_environment_server_without_agent_server_is_credited_to_its_only_agent() -> None:
    def attributed(fields: str) -> str | None:
        text = f"e: {{environment_servers: {{turns: {{{fields}}}}}}}"
        return parse_config(text).servers["e"].attributed

    assert attributed("a: {type: responses_api_agents, name: x}") == "x"
    assert (
        attributed("a: {type: responses_api_agents, name: x}, b: {type: responses_api_agents, name: y}")
        is None
    )
    assert attributed("a: {type: responses_api_models, name: x}") is None


def test_settings_are_not_servers() -> None:
    config = parse_config("policy_base_url: http://x\ndisallowed_ports: [1]\nnothing:\n7: {a: b}\n" + LEGACY)
    assert list(config.servers) == ["relay"]
    assert list(config.settings) == ["policy_base_url", "disallowed_ports", "nothing", "7"]


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", "11103", "http://127.0.0.1:11103"),
        ("node-7.cluster", '"8000"', "http://node-7.cluster:8000"),
        ("'::1'", "80", "http://[::1]:80"),
        ("'[::1]'", "80", "http://[::1]:80"),
        ("${default_host}", "${ports.e}", "http://10.0.0.1:4100"),
        ("${oc.env:HOST}", "${oc.env:PORT,99}", "http://h:99"),
        ("${oc.env:NO_HOST,${default_host}}", "1", "http://10.0.0.1:1"),
        ("n${oc.env:RANK, '3'}.cluster", "1", "http://n3.cluster:1"),
    ],
)
def test_an_address_is_resolved_where_it_is_an_interpolation(host: str, port: str, url: str) -> None:
    text = a_server(host, port) + "default_host: 10.0.0.1\nports: {e: 4100}\n"
    assert parse_config(text, environ={"HOST": "h"}).servers["e"].url == url


@pytest.mark.parametrize(
    ("host", "port", "says"),
    [
        ("${nowhere}", "1", "${nowhere}: the config has no such key"),
        ("${oc.env:UNSET}", "1", "the environment variable UNSET is not set"),
        ("${oc.create:x}", "1", "only ${key} and ${oc.env:NAME,default}"),
        ("${loop}", "1", "refers to itself"),
        ("${open}", "1", "leaves this key open"),
        ("x${group}", "1", "${group} is not a text or a number"),
        ("a/b", "1", "no usable host in the config: 'a/b'"),
        ("7", "1", "no usable host in the config: 7"),
        ("h", "0", "no usable port in the config: 0"),
        ("h", "65536", "no usable port in the config: 65536"),
        ("h", "true", "no usable port in the config: true"),
        ("h", "", "no usable port in the config: null"),
    ],
)
def test_a_server_without_a_usable_address_is_there_and_says_why(host: str, port: str, says: str) -> None:
    text = a_server(host, port) + "loop: ${loop}\nopen: ???\ngroup: {a: b}\n"
    server = parse_config(text).servers["e"]
    assert server.url is None
    assert server.url_fault.startswith("server 'e' has no usable")
    assert says in server.url_fault


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("${oc.env:SECRET}", "1"),
        ("h", "${oc.env:SECRET}"),
        ("${oc.env:${oc.env:SECRET}}", "1"),
        ("${group.${oc.env:SECRET}}", "1"),
        ("x${oc.env:NOBODY,${keys}}", "1"),
    ],
)
def test_what_stands_behind_an_interpolation_is_not_told(host: str, port: str) -> None:
    text = a_server(host, port) + "group: {a: b}\nkeys: {a: hush/2}\n"
    server = parse_config(text, environ={"SECRET": "hush/1"}).servers["e"]
    assert server.url is None
    assert "${" in server.url_fault
    assert "hush" not in server.url_fault


def test_who_changes_a_config_changes_it_for_nobody_else() -> None:
    text = "a: {responses_api_agents: {simple: {host: h, port: 1, opts: {x: 1}}}}\nseeds: [1]\n"
    first, second = parse_config(text), parse_config(text)
    first.servers["a"].fields["opts"] = {}
    first.settings["seeds"].append(2)
    assert parse_config(text) == second


def test_interpolations_elsewhere_may_stay_unresolved() -> None:
    config = parse_config("m: {responses_api_models: {o: {key: '${nobody}', host: h, port: 1}}}")
    assert config.servers["m"].url == "http://h:1"


def test_a_name_that_is_an_interpolation_is_resolved_or_shown_as_it_is() -> None:
    text = "e: {environment_servers: {x: {agent_server: {name: '%s'}}}}\nmine: harness"
    assert parse_config(text % "${mine}").servers["e"].agents == ("harness",)
    assert parse_config(text % "${nobody}").servers["e"].agents == ("${nobody}",)
    assert parse_config(text % "${e}").servers["e"].agents == ("${e}",)


@pytest.mark.parametrize(
    "text", ["a: [", "a: *b", "- a", "7", "", "a: !!python/object:os.system {}", "[" * 2000]
)
def test_what_is_not_a_mapping_in_yaml_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"the head's reply.*: the config is not") as refused:
        parse_config("secret: sk-1\n" + text if text[:2] == "a:" else text, origin="the head's reply")
    assert "sk-1" not in str(refused.value)


def test_a_config_beyond_all_reason_is_not_parsed() -> None:
    with pytest.raises(ConfigError, match="bytes of config"):
        parse_config("#" * (MAX_CONFIG_BYTES + 1))


def test_a_date_in_the_config_stays_text() -> None:
    assert parse_config("started: 2026-08-22").settings == {"started": "2026-08-22"}


def a_bomb(leaf: str, again: str) -> str:
    """Thirty lines of aliases that stand for more than fits into any machine."""
    return f"b0: &b0 {leaf}\n" + "".join(
        f"b{i}: &b{i} {again.format(*[f'*b{i - 1}'] * 9)}\n" for i in range(1, 30)
    )


LISTS = a_bomb("[x, x]", "[{}, {}, {}, {}, {}, {}, {}, {}, {}]")
MAPS = a_bomb("{a: x}", "{{a: {}, b: {}, c: {}, d: {}}}")
MERGED = a_bomb("{a: x}", "{{<<: [{}, {}, {}, {}, {}, {}, {}, {}, {}]}}")


@pytest.mark.parametrize(
    "text",
    [
        LISTS,
        LISTS + a_server("*b29"),
        LISTS + a_server("h", "*b29"),
        LISTS + "r: {resources_servers: {q: {host: h, port: 1, allowed_agents: *b29}}}\n",
        MAPS + "e: {environment_servers: {x: {agent_server: {name: *b29}}}}\n",
        MERGED,
        'z: &z "' + "A" * 8_000_000 + '"\ny: [*z, *z, *z]\n',
    ],
)
def test_aliases_that_stand_for_too_much_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="aliases written out"):
        parse_config(text)


@pytest.mark.parametrize("text", ["l: &l [*l]\n" + a_server("*l"), "m: &m {m: *m}\n" + a_server("${m.m.m}")])
def test_a_config_that_holds_itself_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="inside of what it stands for"):
        parse_config(text)


def test_aliases_and_merged_keys_within_reason_are_resolved() -> None:
    text = "x: &x {host: 127.0.0.1, port: 18121}\na: {responses_api_agents: {x: {<<: *x}}}\n"
    assert parse_config(text).servers["a"].url == "http://127.0.0.1:18121"


@pytest.mark.parametrize("host", ['"' + "${z}" * 40 + '"', "${z}", "*z"])
def test_an_address_of_unreasonable_length_is_none(host: str) -> None:
    text = 'z: &z "' + "A" * 100_000 + '"\n' + a_server(host)
    server = parse_config(text).servers["e"]
    assert server.url is None
    assert "more than 65536 characters" in server.url_fault
    assert len(server.url_fault) < 300


@pytest.mark.parametrize("field", ["host", "port"])
def test_a_long_list_in_place_of_an_address_is_not_written_out(field: str) -> None:
    fields = {"host": "h", "port": "1"} | {field: f"[{', '.join('x' * 10_000)}]"}
    server = parse_config(a_server(fields["host"], fields["port"])).servers["e"]
    assert server.url is None
    assert server.url_fault.endswith("a list")


def test_a_list_in_place_of_a_name_is_not_written_out() -> None:
    text = f"e: {{environment_servers: {{x: {{agent_server: {{name: [{', '.join('x' * 10_000)}]}}}}}}}}"
    assert parse_config(text).servers["e"].attributed == "a list"
