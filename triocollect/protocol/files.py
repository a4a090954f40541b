"""What lies beside the output: `<stem>_run.json`. Pure."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType


class RunFile(msgspec.Struct, frozen=True, kw_only=True):
    """Which run an output belongs to; written before the first row is sent, replaced whole.

    `fields` has one digest (hex sha256) per setting that can change a result: input, limit, num_repeats,
    agent, responses_create_params, prompt_config, model, environment. `drift` names those that differ from
    the run's first ones by the user's wish (`--accept-drift`). `values` has the beginning of each setting in
    words, for people; absent where nobody wrote it. `checkpoints` is the id of the checkpoint
    directory that rows were sent with the last time, `checkpoint_dir` where it was then (absolute), and
    `own_servers` whether the run started its servers itself; none of them without a directory.
    """

    schema: int = 1
    run: str  # random, made once per output
    created: str  # UTC, ISO 8601
    rows: int  # lines of the materialised file
    rows_sha256: str  # hex, of the materialised file's bytes
    fields: Mapping[str, str]
    drift: tuple[str, ...] = ()
    values: Mapping[str, str] | UnsetType = UNSET
    checkpoints: str | UnsetType = UNSET
    checkpoint_dir: str | UnsetType = UNSET
    own_servers: bool | UnsetType = UNSET
