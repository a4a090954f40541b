"""The settings of a run: nested attrs sections inside, one flat table outside."""

from triocollect.config.settings import (
    CheckpointConfig,
    Config,
    DispatchConfig,
    DisplayConfig,
    InputConfig,
    OutputConfig,
    RoutingConfig,
    ServersConfig,
)

__all__ = [
    "CheckpointConfig",
    "Config",
    "DispatchConfig",
    "DisplayConfig",
    "InputConfig",
    "OutputConfig",
    "RoutingConfig",
    "ServersConfig",
]
