"""From the neutral bytes of a case to ours. What is damaged in a case stays damaged, byte for byte.

Whole objects are rewritten in place by pattern, wherever they stand: alone in a line, behind padding, or
glued to a scrap. Everything else passes as it is.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_INPUT_ROW: Final = re.compile(rb'\{(?:"id":"([^"]*)",)?"prompt":"([^"]*)"\}')
_WRITTEN_ROW: Final = re.compile(
    rb'\{"id":"(\w+)","repeat":(\d+),"attempt":(\d+),("(?:result|failure|error)":[^\n]*)\}(?=\n|\Z)'
)
_FAILURE: Final = re.compile(rb'"failure":\{"class":"(\w+)","terminal":(\w+)\}')
_AGENT: Final = b'"agent_ref":{"name":"agent"}'


class Names:
    """The letters of a case and our task indices: a row's letter is its id, or its prompt if it has none."""

    def __init__(self, *files: bytes) -> None:
        letters = dict.fromkeys(
            letter.decode()
            for file in files
            for row in [*_INPUT_ROW.finditer(file), *_WRITTEN_ROW.finditer(file)]
            if (letter := row[1] or row[2])
        )
        self.letters: Final = list(letters)

    def index(self, letter: bytes) -> int:
        return self.letters.index(letter.decode())

    def say(self, task: int, rollout: int, attempt: int) -> str:
        """`a`, `a/2`, `a@1`, `a/2@1`: letter, rollout, attempt; zeros are left out."""
        letter = self.letters[task] if task < len(self.letters) else str(task)
        return letter + (f"/{rollout}" if rollout else "") + (f"@{attempt}" if attempt else "")

    def say_episode(self, rollout_id: str, attempt: int) -> str:
        """The same, of an episode whose rollout has no name of its own."""
        task, rollout = rollout_id.split("-")
        return self.say(int(task), int(rollout), attempt)

    def say_record(self, line: bytes) -> str:
        """A written line: as above, and `:class` where it is a failure."""
        record = json.loads(line)
        said = self.say(
            record["_ng_task_index"], record["_ng_rollout_index"], record.get("_ng_attempt_index", 0)
        )
        return f"{said}:{record['_ng_failure_class']}" if "_ng_failure_class" in record else said


def our_input(neutral: bytes, *, with_ids: bool = False) -> bytes:
    """The data set. `with_ids`: the case is about identity, so ids become rollout ids."""

    def row(match: re.Match[bytes]) -> bytes:
        rollout_id = b',"_ng_rollout_id":"%s"' % match[1] if with_ids else b""
        message = b'{"role":"user","content":"%s"}' % match[2]
        return b'{"responses_create_params":{"input":[%s]},%s%s}' % (message, _AGENT, rollout_id)

    return _INPUT_ROW.sub(row, neutral)


def our_gzip(neutral: bytes) -> bytes:
    """A packed data set, member by member; one cut short or with a wrong checksum is so again."""
    packed = b""
    for text, fault in _members(neutral):
        member = gzip.compress(our_input(text), mtime=0)
        if fault == "cut":
            member = member[: len(member) // 2]
        elif fault == "checksum":
            member = member[:-8] + bytes(byte ^ 0xFF for byte in member[-8:-4]) + member[-4:]
        packed += member
    return packed


def unpacked(packed: bytes) -> bytes:
    """What can be read of a packed data set."""
    return b"".join(text for text, _ in _members(packed))


def _members(packed: bytes) -> Iterator[tuple[bytes, str | None]]:
    """The text of each member, and what is wrong with it."""
    while packed:
        text, unpacker = b"", zlib.decompressobj(wbits=31)
        try:
            for byte in packed:
                text += unpacker.decompress(bytes([byte]))
                packed = packed[1:]
                if unpacker.eof:
                    break
        except zlib.error:
            yield text, "checksum"
            return
        yield text, None if unpacker.eof else "cut"


def our_records(neutral: bytes, names: Names) -> bytes:
    """An output or a sidecar."""

    def record(match: re.Match[bytes]) -> bytes:
        rollout, attempt = int(match[2]), int(match[3])
        stamps = b'"_ng_task_index":%d,"_ng_rollout_index":%d' % (names.index(match[1]), rollout)
        if attempt:
            stamps += b',"_ng_attempt_index":%d' % attempt
        return b"{%s,%s,%s}" % (_fields(match[4]), stamps, _AGENT)

    return _WRITTEN_ROW.sub(record, neutral)


def _fields(neutral: bytes) -> bytes:
    if failure := _FAILURE.fullmatch(neutral):
        return b'"_ng_failure_class":"%s","_ng_failure_terminal":%s' % (failure[1], failure[2])
    if not neutral.startswith(b'"result":{'):
        return neutral
    inner, _, rest = neutral.removeprefix(b'"result":{').partition(b"}")
    return inner + rest


def our_settings(neutral: bytes, folder: Path) -> bytes:
    """A settings file: paths into the folder, participants by kind."""
    settings = json.loads(neutral)
    settings |= {"input": str(folder / "input.jsonl"), "output": str(folder / "out.jsonl")}
    for participant in settings.get("participants", []):
        participant["kind"] = {"env": "environment"}[participant.pop("name")]
    return json.dumps(settings).encode()
