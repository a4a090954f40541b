"""What the processes of a deployment are told of telemetry. Pure.

They append to one log, and are scraped at one port each, from the one that is named upwards, in the order of
the plan.
"""

from attrs import evolve

from triocollect.config.settings import TelemetryConfig
from triocollect.deployment.plan import Plan, Process


def telemetry_flags(settings: TelemetryConfig) -> list[str]:
    """The flags of a server process (`triocollect.servers.observed`); none where nothing is asked for."""
    flags = list[str]()
    if settings.export != "none":
        flags += ["--telemetry", settings.export]
    if settings.prometheus is not None:
        flags += ["--prometheus", settings.prometheus]
    if settings.log_json is not None:
        flags += ["--log-json", str(settings.log_json.absolute())]
    return flags


def of_process(plan: Plan, process: Process) -> list[str]:
    """The flags of one of a deployment's."""
    return telemetry_flags(further(plan.telemetry, plan.processes.index(process)))


def further(settings: TelemetryConfig, by: int) -> TelemetryConfig:
    """The same, scraped so many ports further: a collector has the first one itself."""
    if settings.prometheus is None:
        return settings
    host, _, port = settings.prometheus.rpartition(":")
    return evolve(settings, prometheus=f"{host}:{int(port) + by}")
