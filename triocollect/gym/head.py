"""Asks the head server for the config of the deployment."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from triocollect.errors import ConfigError, TransportError, UsageError
from triocollect.gym.config_tree import MAX_CONFIG_BYTES, NOTHING_SET, GymConfig, parse_config
from triocollect.protocol.values import NOT_JSON
from triocollect.transport import Reply

HEAD_PATIENCE_S: Final = 10.0
INJECTED: Final = "NEMO_GYM_CONFIG_DICT"
_OK: Final = 200


class Asks(Protocol):
    """What of the transport is needed here."""

    async def get(self, url: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> Reply: ...


async def fetch_config(
    transport: Asks, head_url: str, *, environ: Mapping[str, str] = os.environ
) -> GymConfig:
    """The config that the head at `head_url` serves; that in NEMO_GYM_CONFIG_DICT, if set, without asking.

    Raises UsageError naming the address where the head cannot be reached or answers with an error, and
    ConfigError where its answer is not a config. The caller bounds the wait by HEAD_PATIENCE_S and raises
    `silent(head_url)` when it runs out.
    """
    if injected := environ.get(INJECTED):
        return parse_config(injected, environ=environ, origin=f"the environment variable {INJECTED}")
    url = f"{head_url.rstrip('/')}/global_config_dict_yaml"
    try:
        reply = await transport.get(url)
    except TransportError as fault:
        raise UsageError(f"cannot reach the head server at {head_url}: {fault}. {_ADVICE}") from fault
    if reply.status != _OK:
        raise UsageError(f"the head server at {head_url} answered {reply.status} to GET {url}. {_ADVICE}")
    return decode_head_reply(reply.body, environ=environ, origin=url)


def silent(head_url: str) -> UsageError:
    """What to raise when the head took the connection and did not answer in time."""
    return UsageError(f"the head server at {head_url} did not answer within {HEAD_PATIENCE_S:g} s. {_ADVICE}")


def decode_head_reply(
    body: bytes, *, environ: Mapping[str, str] = NOTHING_SET, origin: str = "the head server"
) -> GymConfig:
    """A JSON string whose content is YAML (Gym 0.7.0 serialises the text twice). Raises ConfigError."""
    if len(body) > MAX_CONFIG_BYTES:
        raise ConfigError(
            f"{origin}: {len(body)} bytes of config are more than the {MAX_CONFIG_BYTES} we take"
        )
    try:
        text = msgspec.json.decode(body, type=str)
    except NOT_JSON:
        raise ConfigError(f"{origin}: not a head server's answer, which is one JSON string of YAML") from None
    return parse_config(text, environ=environ, origin=origin)


_ADVICE: Final = "Is it running, and is this its address? Gym's default is http://127.0.0.1:11000"
