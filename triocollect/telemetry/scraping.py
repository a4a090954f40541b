"""Metrics on a page that Prometheus asks for."""

from collections.abc import Callable

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import MetricReader
from prometheus_client import CollectorRegistry, start_http_server

from triocollect.errors import UsageError


def scraped(address: str) -> tuple[MetricReader, Callable[[], None]]:
    """A reader whose page is at HOST:PORT, and how it is closed. Raises UsageError where it cannot listen."""
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    try:
        server, _ = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--prometheus {address}: cannot listen there: {why}; end what listens there, or give another"
        ) from error

    def close() -> None:
        server.shutdown()
        server.server_close()

    return PrometheusMetricReader(registry=registry), close
