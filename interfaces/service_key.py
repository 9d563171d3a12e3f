"""The API key that commands send to the service they ask."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from functools import cache

import click

from providers.outbound.json_client import JsonClient
from providers.outbound.network import Network
from providers.rag_wrapper.dialect import ONCE, WrapperDialect
from schemas.errors import RagError
from schemas.settings import AccessSettings
from wrapper.access.configured_key import FILE, KEY, configured_key

LOOK_SECONDS = 5.0


def service_key(url: str, network: Network) -> str | None:
    """Return the key of `RAG_API_KEY`, else of the file `RAG_API_KEY_FILE`; else what is typed at a terminal, when the
    service at `url` wants a key; else None.

    No command takes a key as an argument, which would stay in the history of the shell. Raises ConfigurationError when
    both variables are set, or when the file cannot be read or is empty.
    """
    key, file = (os.environ.get(variable, "").strip() for variable in (KEY, FILE))
    return configured_key(AccessSettings(api_key=key, api_key_file=file))[0] or _typed_key(url, network)


def check_key(url: str, network: Network, key: str | None) -> None:
    """Raise ConfigurationError when the service at `url` does not know who asks with this key. One that does not answer
    is left for later."""
    error = _refusal(url, network, key)
    if error is not None and error.details.get("error_type") == "authentication":
        raise error


@cache
def _typed_key(url: str, network: Network) -> str | None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()) or not _wants_key(url, network):
        return None
    typed: str = click.prompt(f"API key for {url}", hide_input=True, err=True)
    return typed.strip() or None


def _wants_key(url: str, network: Network) -> bool:
    error = _refusal(url, network, None)
    return error is not None and error.code == "key_missing"


def _refusal(url: str, network: Network, key: str | None) -> RagError | None:
    """Return why the service does not say who asks, None when it does."""
    dialect = WrapperDialect(url.rstrip("/"))
    client = JsonClient(url, dialect, network=network, api_key=key, timeout_seconds=LOOK_SECONDS, retry=ONCE)
    with closing(client):
        try:
            client.call("GET", "/api/me")
        except RagError as error:
            return error
        return None
