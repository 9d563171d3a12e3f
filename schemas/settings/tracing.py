"""The settings of traces."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from marshmallow import ValidationError

from schemas.errors import ConfigurationError
from schemas.settings.environment import environment, seal

HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
"""OpenTelemetry's own variable for headers, such as that of a token."""
PATH = "/v1/traces"


@dataclass(frozen=True)
class TracingSettings:
    """The settings of traces. Each field is set by the variable `RAG_` plus its name in capitals."""

    otel_endpoint: str = ""  # URL of a collector that speaks OTLP over HTTP; empty: nothing is traced

    @property
    def url(self) -> str:
        """The address that spans are sent to."""
        endpoint = self.otel_endpoint.rstrip("/")
        return endpoint if endpoint.endswith(PATH) else endpoint + PATH


def read_tracing_settings() -> TracingSettings:
    """Read the settings from this process's environment. Raises ConfigurationError naming the wrong variable."""
    env = environment()
    default = TracingSettings()
    values: dict[str, Any] = {"otel_endpoint": env.str("OTEL_ENDPOINT", default.otel_endpoint, validate=_check_url)}
    seal(env)
    return TracingSettings(**values)


def read_tracing_headers() -> dict[str, str]:
    """Return the headers of `OTEL_EXPORTER_OTLP_HEADERS` (`name=value,…`), which are secret.

    Raises ConfigurationError without quoting it.
    """
    found: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in os.environ.get(HEADERS, "").split(","))):
        name, separator, value = (unquote(part).strip() for part in each.partition("="))
        if not (separator and name and value and f"{name}{value}".isascii() and f"{name}{value}".isprintable()):
            raise ConfigurationError(f"{HEADERS} must be pairs of a header and its value: name=value,name=value")
        found[name] = value
    return found


def _check_url(url: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValidationError("Must be a URL such as http://collector:4318, without credentials, query or fragment.")
