"""What a failure says to people, in one line."""

import json

import msgspec
import pytest
from msgspec import Raw

from triocollect.protocol.ids import RowKey
from triocollect.records.causes import cause_of, causes_in

PAGE = """<!DOCTYPE HTML>
<html><head><style>p {color: red}</style><title>Not Found</title></head>
<body><p>Nothing matches the given URI.</p></body></html>"""


def said(message, body=None):
    fields = {"_ng_failure_message": message, "_ng_failure_response_body": body}
    return cause_of({name: Raw(msgspec.json.encode(value)) for name, value in fields.items()})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (None, ""),
        ("", ""),
        ('{"detail": "no"}', ': {"detail": "no"}'),
        (json.dumps("agent answered 500: connection refused"), ": agent answered 500: connection refused"),
        ('"cut off in the mid…', ': "cut off in the mid…'),
        (json.dumps(f"answered 404: {PAGE}"), ": answered 404: Not Found Nothing matches the given URI."),
        ("<object at 0x7f> is not JSON", ": <object at 0x7f> is not JSON"),
        ("a\x1b[31mred\x1b[0m\nline\t\u202eend", ": a [31mred [0m line end"),
    ],
)
def test_the_first_words_of_the_answer_follow_on_one_line(body, words):
    assert said("HTTP 500", body) == "HTTP 500" + words


def test_an_answer_without_end_is_cut_and_what_is_no_text_is_told_as_it_is():
    assert len(said("HTTP 500", "x" * 100_000)) == 320
    assert cause_of({"error": Raw(b'{"code":5}')}) == '{"code":5}'
    assert cause_of({}) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-S3CRET. You can find yours",
        "Authorization: Bearer S3CRET was refused",
        "{'authorization': 'Basic S3CRET'}",
        '{"api_key": "S3CRET", "x": 1}',
        "cannot connect to https://user:S3CRET@host/v1",
        "?access_token=S3CRET&x=1",
        "OPENAI_API_KEY=S3CRET is not known",
        "my_password=S3CRET",
        "password=ab,S3CRET",
        "client_secret: S3CRET",
        "Authorization: Token S3CRET",
        "{'Authorization': 'ApiKey S3CRET'}",
        '{"detail":"{\\"api_key\\": \\"S3CRET\\"}"}',
        "cannot connect to http://user:p@S3CRET@host/v1",
        "token=S3CRET",
        "/v1?key=S3CRET",
        "HF_TOKEN=S3CRET",
        "Incorrect API key provided: S3CRET",
    ],
)
def test_what_looks_like_a_secret_is_not_repeated(text):
    assert "S3CRET" not in said("HTTP 401", text)
    assert "…" in said("HTTP 401", text)


def test_a_port_and_a_token_of_a_parser_are_no_secrets():
    text = "http://127.0.0.1:8000/v1: Unexpected token: } (max_tokens=5)"
    assert said(text) == text


def test_each_class_is_told_by_a_row_whose_last_word_it_is(tmp_path):
    path = tmp_path / "out_failures.jsonl"
    lines = [
        {
            "_ng_failure_class": kind,
            "_ng_task_index": task,
            "_ng_rollout_index": 0,
            "_ng_failure_message": words,
        }
        for task, kind, words in [
            (0, "timeout", "overcome since"),
            (0, "refused", "its last word"),
            (1, "timeout", "done since"),
            (2, "timeout", "too slow"),
            (3, "wordless", None),
        ]
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{damaged\n")
    last = {RowKey(0, 0): "refused", RowKey(2, 0): "timeout", RowKey(3, 0): "wordless"}
    assert causes_in(path, last) == {"refused": "its last word", "timeout": "too slow"}
    assert causes_in(tmp_path / "nowhere", last) == {}
