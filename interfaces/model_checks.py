"""Checks whether the models of the settings can be used on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from interfaces.given_connections import LOCAL_MODEL, PREFIXES, built_in_connections
from providers.base import Provider
from providers.calibration import Calibration, read_calibration
from providers.outbound.api_keys import checked_key
from registry.provider_discovery import BUILTINS, discover, installed_strangers
from registry.provider_registry import Entry, ProviderRegistry
from schemas.configuration import faults
from schemas.connections import Connection
from schemas.errors import ConfigurationError
from schemas.settings import RegistrySettings

VENDORS = {"openai": "api.openai.com", "cohere": "api.cohere.com"}
"""The addresses that providers ask when no other is named, and that want a key."""


def check_models(settings: RegistrySettings, *, thoroughly: bool = False) -> None:
    """Raise ConfigurationError when an embedding, chat or reranking connection of the settings cannot be used on this
    machine, whether or not its service answers; `thoroughly` reads the files of a local model too."""
    own_calibrations(settings)
    for connection in _of_settings(settings):
        variable = f"{PREFIXES[connection.kind]}PROVIDER"
        provider = _provider(connection, variable)
        _check_configuration(connection, provider)
        damage = provider.damaged_because() if thoroughly else None
        if damage is not None:
            raise _unusable(variable, connection.provider, damage)


def own_calibrations(settings: RegistrySettings) -> dict[str, Calibration]:
    """Return the operator's calibrations by the names of their models. Raises ConfigurationError for a faulty file."""
    if not settings.embedding_calibration:
        return {}
    try:
        return read_calibration(Path(settings.embedding_calibration))
    except ConfigurationError as error:
        raise ConfigurationError(f"RAG_EMBEDDING_CALIBRATION: {error.message}") from error


def model_warnings(settings: RegistrySettings) -> Iterator[str]:
    """Return a sentence for each variable that the chosen model does not use, and for each model that is asked at its
    vendor's own address without a key. Servers at other addresses mostly need none."""
    if settings.embedding_provider == LOCAL_MODEL:
        reason = f"the embeddings are {LOCAL_MODEL}, which asks no service; RAG_EMBEDDING_PROVIDER names another"
        yield from _unused("embedding", {"URL": settings.embedding_url}, reason)
    for kind, provider, url, model in (
        ("llm", settings.chat_provider, settings.chat_url, settings.chat_model),
        ("rerank", settings.rerank_provider, settings.rerank_url, settings.rerank_model),
    ):
        if not provider:
            yield from _unused(kind, {"URL": url, "MODEL": model}, f"{PREFIXES[kind]}PROVIDER is not set")
    for connection in _of_settings(settings):
        vendor = VENDORS.get(connection.provider)
        if vendor and not {"url", "api_key"} & connection.config.keys():
            prefix = PREFIXES[connection.kind]
            yield f"{prefix}API_KEY is not set, which {vendor} asks for; {prefix}URL names another server"


def _unused(kind: str, said: dict[str, str], reason: str) -> Iterator[str]:
    """Return a sentence for each of these settings that is set, and for the key, which is in the environment only."""
    prefix = PREFIXES[kind]
    for name, text in {**said, "API_KEY": os.environ.get(f"{prefix}API_KEY")}.items():
        if text:
            yield f"{prefix}{name} is not used: {reason}"


def _of_settings(settings: RegistrySettings) -> list[Connection]:
    return [each for each in built_in_connections(settings) if each.kind in PREFIXES]


def _provider(connection: Connection, variable: str) -> type[Provider]:
    """Return the class of one provider, importing no other."""
    kind, name = connection.kind, connection.provider
    builtins = [each for each in BUILTINS if each.kind == kind]
    strangers = [each for each in installed_strangers() if each.name.startswith(f"{kind}.")]
    known = [*(each.id for each in builtins), *(each.name.removeprefix(f"{kind}.") for each in strangers)]
    if name not in known:
        sentence = f"{variable}: there is no provider '{name}', only {', '.join(known)}"
        raise ConfigurationError(sentence, field=variable, allowed=known)
    entry: Entry = discover(
        ProviderRegistry(),
        [each for each in builtins if each.id == name],
        [each for each in strangers if each.name == f"{kind}.{name}"],
    ).entry(name, kind)
    if entry.provider is None or entry.reason is not None:
        raise _unusable(variable, name, entry.reason or "it cannot be imported")
    return entry.provider


def _check_configuration(connection: Connection, provider: type[Provider]) -> None:
    prefix = PREFIXES[connection.kind]
    try:
        checked_key(os.environ.get(f"{prefix}API_KEY"))
    except ConfigurationError as error:
        raise ConfigurationError(f"{prefix}API_KEY: {error.message}", field=f"{prefix}API_KEY") from None
    wrong = [
        f"{prefix}{fault.pointer.removeprefix('/').upper()}: {fault.message}"
        for fault in faults(connection.config, provider.connection_schema(), placeholders=True)
    ]
    if wrong:
        raise ConfigurationError(f"Wrong settings: {'; '.join(wrong)}")


def _unusable(variable: str, name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{variable}: '{name}' cannot be used here: {reason}", field=variable)
