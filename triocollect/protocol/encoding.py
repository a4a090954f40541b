"""How small files of ours look: JSON that a person can read. Pure."""

import msgspec


def encode_file(value: msgspec.Struct) -> bytes:
    """Two-space indent and a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
