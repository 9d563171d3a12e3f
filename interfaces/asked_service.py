"""The service that commands ask: where it can be reached, by which certificate it is known, and with which API key.

What takes long to import is imported where it is used, so that help and usage errors are quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from schemas.errors import RagError

if TYPE_CHECKING:
    from providers.outbound.json_client import JsonClient, RetryPolicy
    from providers.outbound.network import Network
    from providers.rag_wrapper.client import WrapperClient

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # the service listens at these but is not called at them
LOOK_SECONDS = 5.0
ANSWER_SECONDS = 120.0
"""How long a service may be silent before it answers."""


def configured_url() -> str:
    """Return the URL at which this machine reaches a service with the settings of this process."""
    scheme = "https" if os.environ.get("RAG_TLS_CERT") else "http"
    return _url(scheme, os.environ.get("RAG_HOST"), os.environ.get("RAG_PORT"))


def asked_url() -> str:
    """Return the URL of the service that commands ask: that of the data directory, if it runs, else the configured
    one."""
    return running_service(_data_directory()) or configured_url()


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

    if own := _own_certificate(url.rstrip("/"), data_dir or _data_directory()):
        return Network(trust=Trust(own, "RAG_TLS_CERT", is_own=True))
    ca_file = os.environ.get("RAG_CA_FILE")
    return Network(trust=Trust(ca_file) if ca_file else None)


def service_key(url: str, network: Network) -> str | None:
    """Return the key of `RAG_API_KEY`, else of the file `RAG_API_KEY_FILE`; else what is typed at a terminal, when the
    service at `url` wants a key; else None.

    No command takes a key as an argument, which would stay in the history of the shell. Raises ConfigurationError when
    both variables are set, or when the file cannot be read or is empty.
    """
    from schemas.settings import AccessSettings
    from wrapper.access.configured_key import FILE, KEY, configured_key

    key, file = (os.environ.get(variable, "").strip() for variable in (KEY, FILE))
    return configured_key(AccessSettings(api_key=key, api_key_file=file))[0] or _typed_key(url, network)


def check_key(url: str, network: Network, key: str | None) -> RagError | None:
    """Raise ConfigurationError when the service at `url` does not know who asks with this key. One that does not answer
    is left for later: return why."""
    error = _refusal(url, network, key)
    if error is not None and error.details.get("error_type") == "authentication":
        raise error
    return error


@contextmanager
def service_to_ask(
    url: str, *, retry: RetryPolicy | None = None, timeout_seconds: float = ANSWER_SECONDS
) -> Iterator[JsonClient]:
    """Give a client of the service at `url` with the key that the caller has, which asks once unless `retry` says
    otherwise.

    Raises InvalidInputError for a malformed URL. An answer without what it should have, taken apart in the block,
    raises UnavailableError.
    """
    network = network_to(url)
    with (
        closing(_client(url, network, service_key(url, network), timeout_seconds, retry)) as service,
        service.reading(),
    ):
        yield service


@contextmanager
def service_at(url: str, *, retry: RetryPolicy | None = None) -> Iterator[WrapperClient]:
    """Give the same as a client that knows the routes, and waits where the service is busy or starts."""
    from providers.rag_wrapper.client import WrapperClient
    from providers.rag_wrapper.dialect import PATIENT

    with service_to_ask(url, retry=retry or PATIENT) as service:
        yield WrapperClient(service)


@cache
def _typed_key(url: str, network: Network) -> str | None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    error = _refusal(url, network, None)
    if error is None or error.code != "key_missing":
        return None
    typed: str = click.prompt(f"API key for {url}", hide_input=True, err=True)
    return typed.strip() or None


def _refusal(url: str, network: Network, key: str | None) -> RagError | None:
    """Return why the service does not say who asks, None when it does."""
    with closing(_client(url, network, key, LOOK_SECONDS)) as client:
        try:
            client.get("/api/me")
        except RagError as error:
            return error
        return None


def _client(
    url: str, network: Network, key: str | None, timeout_seconds: float, retry: RetryPolicy | None = None
) -> JsonClient:
    from providers.outbound.json_client import JsonClient
    from providers.rag_wrapper.dialect import ONCE, WrapperDialect

    return JsonClient(
        url,
        WrapperDialect(url.rstrip("/")),
        network=network,
        api_key=key,
        timeout_seconds=timeout_seconds,
        retry=retry or ONCE,
    )


def _data_directory() -> Path:
    return Path(os.environ.get("RAG_DATA_DIR") or "data")


def _own_certificate(url: str, data_dir: Path) -> str | None:
    if not url.startswith("https:"):
        return None
    if os.environ.get("RAG_TLS_CERT") and url == configured_url():
        return os.environ["RAG_TLS_CERT"]
    from wrapper.engine.data_directory_lock import serving_certificate

    return serving_certificate(data_dir) if url == running_service(data_dir) else None


def _url(scheme: str, host: str | None, port: str | None) -> str:
    host = host or "127.0.0.1"
    host = _EVERY_INTERFACE.get(host, host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or '5006'}"
