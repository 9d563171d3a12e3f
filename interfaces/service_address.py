"""Where the service of this machine can be reached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # the service listens at these but is not called at them


def service_url(environ: Mapping[str, str]) -> str:
    """Return the URL at which this machine reaches a service with these settings."""
    host = environ.get("RAG_HOST") or "127.0.0.1"
    host = _EVERY_INTERFACE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{environ.get('RAG_PORT') or '5006'}"


def configured_url() -> str:
    """Return the URL of a service with the settings of this process."""
    return service_url(os.environ)


def running_service(data_dir: Path) -> str | None:
    """Return the URL of the service that owns a data directory, None when nobody owns it or the owner serves
    nothing."""
    from wrapper.engine.data_directory_lock import serving_address

    address = serving_address(data_dir)
    if address is None:
        return None
    listens = urlsplit(address)
    return service_url({"RAG_HOST": listens.hostname or "", "RAG_PORT": str(listens.port)})
