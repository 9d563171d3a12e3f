"""Whether requests are traced, and what a start needs for it. Nothing of OpenTelemetry is imported unless they are."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from providers.outbound.addresses import BlockedError
from providers.outbound.network import DEFAULT_PORTS, Network
from providers.outbound.redaction import Redactor
from schemas.errors import ConfigurationError, UnavailableError
from schemas.observing.spans import Tracer
from schemas.settings import TracingSettings, read_tracing_headers
from wrapper.observing.logs import clean_lines
from wrapper.service import Service

PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
INSTALL = "pip install 'rag-wrapper[tracing]'"
VARIABLE = "RAG_OTEL_ENDPOINT"


def open_tracing(settings: TracingSettings, network: Network, service: Service) -> Tracer | None:
    """Return what traces the requests of this process, until its service closes; None when nobody wants it.

    Raises ConfigurationError as `check_tracing` does.
    """
    if not settings.otel_endpoint:
        return None
    check_tracing(settings, network)
    from interfaces.tracing.opentelemetry_spans import Tracing

    headers = read_tracing_headers()
    service.on_close(clean_lines(Redactor(headers.values())))
    tracing = Tracing(settings, headers, network)
    service.on_close(tracing.close)
    return tracing


def check_tracing(settings: TracingSettings, network: Network) -> list[str]:
    """Return a sentence when the collector's name is not known, which may pass.

    Raises ConfigurationError when OpenTelemetry is not installed, its headers cannot be read, or no connection may lead
    to the collector.
    """
    if not settings.otel_endpoint:
        return []
    read_tracing_headers()
    if not all(map(_is_installed, PACKAGES)):
        raise ConfigurationError(f"{VARIABLE}: OpenTelemetry is not installed: {INSTALL}", field=VARIABLE)
    parts = urlsplit(settings.url)
    try:
        network.endpoints(parts.scheme, str(parts.hostname), parts.port or DEFAULT_PORTS[parts.scheme])
    except BlockedError:
        raise ConfigurationError(
            f"{VARIABLE}: RAG_CONNECT_POLICY lets no connection lead to the collector", field=VARIABLE
        ) from None
    except UnavailableError:
        return [f"{VARIABLE}: the name of the collector is not known now: spans are lost until it is"]
    return []


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the packages around it
        return False
