"""The bytes on the wire and on disk. A golden is added for a new version, never edited."""

from pathlib import Path

import msgspec
import pytest

from tests.protocol.examples import EXAMPLES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_message_is_written_as_its_golden(name):
    assert msgspec.json.encode(EXAMPLES[name]) + b"\n" == (GOLDEN / f"{name}.v1.json").read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.name)
def test_every_golden_ever_written_is_read(path):
    example = EXAMPLES[path.name.partition(".")[0]]
    assert msgspec.json.decode(path.read_bytes(), type=type(example)) == example


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_reader_ignores_what_a_newer_writer_adds(name):
    fields = msgspec.json.decode((GOLDEN / f"{name}.v1.json").read_bytes())
    wider = msgspec.json.encode({**fields, "added_later": [1]})
    assert msgspec.json.decode(wider, type=type(EXAMPLES[name])) == EXAMPLES[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_reader_misses_what_it_needs(name):
    kind = type(EXAMPLES[name])
    required = [field.encode_name for field in msgspec.structs.fields(kind) if field.required]
    assert required, name
    fields = msgspec.json.decode((GOLDEN / f"{name}.v1.json").read_bytes())
    for missing in required:
        short = msgspec.json.encode({key: value for key, value in fields.items() if key != missing})
        with pytest.raises(msgspec.ValidationError, match=missing):
            msgspec.json.decode(short, type=kind)
