"""Where the service of this machine can be reached, and by which certificate it is known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from providers.outbound.network import Network

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # the service listens at these but is not called at them


def service_url(environ: Mapping[str, str]) -> str:
    """Return the URL at which this machine reaches a service with these settings."""
    return _url("https" if environ.get("RAG_TLS_CERT") else "http", environ.get("RAG_HOST"), environ.get("RAG_PORT"))


def configured_url() -> str:
    """Return the URL of a service with the settings of this process."""
    return service_url(os.environ)


def asked_url() -> str:
    """Return the URL of the service that commands ask: that of the data directory, if it runs, else the configured
    one."""
    return running_service(data_directory()) or configured_url()


def data_directory() -> Path:
    return Path(os.environ.get("RAG_DATA_DIR") or "data")


def running_service(data_dir: Path) -> str | None:
    """Return the URL of the service that owns a data directory, None when nobody owns it or the owner serves
    nothing."""
    from wrapper.engine.data_directory_lock import serving_address

    address = serving_address(data_dir)
    if address is None:
        return None
    listens = urlsplit(address)
    return _url(listens.scheme, listens.hostname, str(listens.port))


def network_to(url: str, data_dir: Path | None = None) -> Network:
    """Return the network by which commands ask the service at `url`.

    A service of this machine, that of the settings or of the data directory, is known by its certificate's file: it is
    called by an address that the certificate need not name. Any other is trusted as `RAG_CA_FILE` says.
    """
    from providers.outbound.network import Network
    from providers.outbound.trust import Trust

    if own := _own_certificate(url.rstrip("/"), data_dir):
        return Network(trust=Trust(own, "RAG_TLS_CERT", is_own=True))
    ca_file = os.environ.get("RAG_CA_FILE")
    return Network(trust=Trust(ca_file) if ca_file else None)


def _own_certificate(url: str, data_dir: Path | None) -> str | None:
    if not url.startswith("https:"):
        return None
    if os.environ.get("RAG_TLS_CERT") and url == configured_url():
        return os.environ["RAG_TLS_CERT"]
    from wrapper.engine.data_directory_lock import serving_certificate

    data_dir = data_dir or data_directory()
    return serving_certificate(data_dir) if url == running_service(data_dir) else None


def _url(scheme: str, host: str | None, port: str | None) -> str:
    host = host or "127.0.0.1"
    host = _EVERY_INTERFACE.get(host, host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or '5006'}"
