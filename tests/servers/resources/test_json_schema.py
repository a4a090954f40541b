"""Which answers fit a row's schema, and that no schema or answer makes the judging endless."""

import json

import msgspec
import pytest

from triocollect.servers.resources.json_schema import Expected, verify

THING = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "count": {"$ref": "#/$defs/small"}},
    "required": ["name"],
    "patternProperties": {"^x-": {"type": "null"}},
    "additionalProperties": False,
    "$defs": {"small": {"type": "integer", "maximum": 9}},
}


NEWEST = "https://json-schema.org/draft/2020-12/schema"


def judged(answer: str, schema: object = THING):
    return verify(answer, Expected(json.dumps(schema)))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ('{"name": "reed", "count": 3}', None),
        (' {"name": "reed", "x-more": null}\n', None),
        ('Here it is:\n```json\n{"name": "reed"}\n```\nDone.', None),
        ('```\n{"name": "reed"}```', None),
        ('{"name": "Reed"}', "$.name: 'Reed' does not match"),
        ('{"name": "reed", "count": 10}', "$.count: 10 is greater than the maximum of 9"),
        ('{"name": "reed", "x-more": 1}', "$['x-more']: 1 is not of type 'null'"),
        ('{"name": "reed", "more": 1}', "'more' is no property"),
        ('{"count": 3}', "'name' is a required property"),
        ("[]", "$: [] is not of type 'object'"),
        ('Here: {"name": "reed"}', "no JSON"),
        ('```json\n{}\n``` or ```json\n{"name": "reed"}\n```', "no JSON"),
        ('{"name": "\\ud800"}', "no JSON"),
        ("", "no JSON"),
    ],
)
def test_an_answer_fits_or_the_reply_says_where_it_does_not(answer: str, fault: str | None) -> None:
    verdict = judged(answer)
    assert verdict.reward == float(fault is None)
    assert fault is None or fault in verdict.details["validation_error"]


def test_properties_beyond_those_named_may_have_a_schema_of_their_own() -> None:
    schema = {"properties": {"a": True}, "additionalProperties": {"type": "string"}}
    assert judged('{"a": 1, "b": "x"}', schema).reward == 1.0
    assert judged('{"a": 1, "b": 2}', schema).reward == 0.0


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ("[1, true, [1], {}]", True),
        ("[1, 1.0]", False),
        ('[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', False),
    ],
)
def test_items_are_unique_by_their_value_and_not_by_their_text(items: str, unique) -> None:
    assert judged(items, {"uniqueItems": True}).reward == float(unique)
    assert judged(items, {"uniqueItems": False}).reward == 1.0


def test_an_older_draft_means_what_it_meant() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 3, "exclusiveMaximum": True}
    assert judged("2", old).reward == 1.0
    assert judged("3", old).reward == 0.0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "`schema_str`"),
        ("[]", "`schema_str`"),
        ('{"type": "thing"}', "`schema_str`: .*'thing' is not valid"),
        ('{"pattern": "("}', "`schema_str`"),
        ('{"$ref": "#/nowhere"}', "`schema_str`.*nowhere"),
        ('{"unevaluatedProperties": false}', "unevaluatedProperties is not judged"),
        ('{"unevaluatedItems": false}', "unevaluatedItems is not judged"),
        ('{"$schema": 5}', "`schema_str`: .schema: 5 is no string"),
        ('{"$schema": "http://json-schema.org/draft-03/schema#"}', "draft 3 is not judged"),
        ('{"$schema": "http://json-schema.org/draft-04/schema#", "$ref": null}', ".ref: None is no string"),
        (f'{{"items": {{"$schema": "{NEWEST}"}}}}', "only the whole schema"),
        ('{"items": {"multipleOf": 0}}', "`schema_str`: .*multipleOf: 0 is less than"),
        (
            '{"n": {"multipleOf": 0}, "items": {"$ref": "#/n"}}',
            "'#/n' leads to no schema: .*multipleOf: 0 is less",
        ),
        ('{"n": 5, "$dynamicRef": "#/n"}', "'#/n' leads to no schema: .*5 is not of type 'object'"),
        (
            '{"n": {"a": [{"type": 5}]}, "$ref": "#/n", "items": {"$ref": "#/n/a/0"}}',
            "'#/n/a/0' leads to no schema",
        ),
        ('{"n": {"$ref": "#/m"}, "m": {"required": 1}, "not": {"$ref": "#/n"}}', "'#/m' leads to no schema"),
        ('{"n": 5, "$ref": "#/n/a"}', "'#/n/a' leads to nothing in the schema"),
        ('{"$ref": "http://["}', "leads to nothing in the schema"),
        ('{"not":' * 70 + "{}" + "}" * 70, "more than 64 lists and objects in each other"),
        ("[" * 100_000, "`schema_str`"),
    ],
)
def test_a_schema_that_is_none_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        verify("{}", Expected(text))


def test_references_to_one_large_part_cost_no_look_at_all_of_it_each() -> None:
    """Minutes otherwise."""
    part = {"properties": {f"p{n}": {"type": "string", "maxLength": n} for n in range(400)}}
    schema = {"$defs": {"part": part}, "allOf": [{"$ref": "#/$defs/part"}] * 400}
    assert verify('{"p7": "seven"}', Expected(json.dumps(schema))).reward == 1.0


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/schema", "file:///etc/passwd", "other.json", NEWEST])
def test_a_reference_that_leaves_the_schema_is_refused_and_never_fetched(address: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"`schema_str`: '{address}' leads to nothing"):
        judged("{}", {"$ref": address})


def exploding(depth: int) -> dict:
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 3} for n in range(depth)}
    return {"$ref": "#/$defs/l0", "$defs": {**levels, f"l{depth}": {}}}


@pytest.mark.parametrize(
    ("schema", "answer", "fault"),
    [
        ({"pattern": "^(a|a)*$"}, '"' + "a" * 60 + '!"', "comes to no end"),
        (
            {"patternProperties": {"^(a|aa)*$": {}}, "additionalProperties": False},
            '{"' + "a" * 90 + '!": 1}',
            "comes to no end",
        ),
        ({"items": {"not": {"pattern": "^(a|a)*$"}}}, json.dumps(["a" * 18 + "!"] * 2000), "comes to no end"),
        (
            {"$schema": NEWEST, "items": {"not": {"$ref": "#"}}, "pattern": "^(a|a)*$"},
            json.dumps(["a" * 18 + "!"] * 2000),
            "comes to no end",
        ),
        (
            {"patternProperties": {f"^x{n}": {} for n in range(200)}},
            json.dumps(dict.fromkeys(map(str, range(10_000)))),
            "comes to no end",
        ),
        ({"items": {"enum": list(range(1000))}}, json.dumps([999] * 5000), "more than"),
        ({"uniqueItems": True}, json.dumps([{"n": n} for n in range(20_000)] + [{"n": 7.0}]), "equal"),
        (exploding(30), "1", "more than"),
        ({"$ref": "#"}, "1", "too deep"),
        ({"multipleOf": 0.5}, "1" + "0" * 400, "too large"),
        ({"items": {"multipleOf": 1e-300}}, "[1" + "0" * 400 + "]", "too large"),
        ({"properties": {"a": {"$ref": "#"}}}, '{"a":' * 50_000 + "1" + "}" * 50_000, "no JSON"),
        ({"properties": {"a": {"$ref": "#"}}}, '{"a":' * 900 + "1" + "}" * 900, "too deep"),
    ],
)
def test_judging_always_ends_and_what_did_not_earns_nothing(schema: dict, answer: str, fault: str) -> None:
    verdict = judged(answer, schema)
    assert verdict.reward == 0.0
    assert fault in verdict.details["validation_error"]


@pytest.mark.parametrize("frames", range(12))
def test_what_refers_to_itself_ends_however_deep_the_interpreter_is_already(frames: int) -> None:
    def deeper(more: int):
        return deeper(more - 1) if more else judged("1", {"if": {"$ref": "#"}, "not": {"$ref": "#"}})

    assert "too deep" in deeper(frames).details["validation_error"]
