"""Checks that run together before the whole service starts.

What not every start needs is imported where it is used, so that faults are told within a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from interfaces.given_connections import declared_connections, operators_placeholders
from interfaces.model_checks import check_models, model_warnings
from providers.outbound.addresses import ConnectPolicy
from registry.placeholders.secret_hosts import SecretHosts
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from retrieval.parsing.confinement import lacking
from schemas.errors import RagError
from schemas.settings import (
    WrapperSettings,
    read_access_settings,
    read_declared_connections,
    read_oidc_settings,
    read_registry_settings,
    read_retrieval_settings,
    read_tracing_settings,
    read_wrapper_settings,
    unknown_variables,
)
from wrapper.access.configured_key import bootstrap_key, check_door
from wrapper.backups.keys import FILE, backup_key, key_warnings
from wrapper.backups.places import DIR, check_folder
from wrapper.secret_key import KeyFile
from wrapper.start_checks import catalogue_path, check_catalogue, check_data_directory, check_port, disk_warnings
from wrapper.web.client_addresses import TrustedProxies

FoundT = TypeVar("FoundT")


@dataclass
class Findings:
    """The problems that prevent a start, and the warnings, one sentence each. `settings` are the storage proxy's, None
    when they are among the problems."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    settings: WrapperSettings | None = None

    def check(self, look: Callable[[], FoundT]) -> FoundT | None:
        """Return what `look` returns. When it raises RagError, note a problem and return None."""
        try:
            return look()
        except RagError as error:
            self.problems.append(" ".join(error.message.split()))
            return None


def look_before_start() -> Findings:
    """Check settings, models, declared connections, port and data directory. Return what was found."""
    found = Findings()
    found.settings = storage = found.check(read_wrapper_settings)
    registry = found.check(read_registry_settings)
    found.check(read_retrieval_settings)
    access = found.check(read_access_settings)
    if access is not None:
        found.check(lambda: bootstrap_key(access))
        found.check(lambda: TrustedProxies.parse(access.trusted_proxies))
    if "FORWARDED_ALLOW_IPS" in os.environ:
        found.warnings.append("FORWARDED_ALLOW_IPS is not read: RAG_TRUSTED_PROXIES names the proxies")
    users = found.check(read_oidc_settings)
    if users is not None and users.has_users:
        from interfaces.identity.claims import read_claims_table

        found.check(lambda: read_claims_table(users.oidc_claims))
    found.warnings += unknown_variables(os.environ, () if registry is None else registry.env_patterns)
    if registry is not None:
        policy = found.check(lambda: ConnectPolicy.parse(registry.connect_policy))
        found.check(lambda: SecretHosts.parse(registry.secret_hosts))
        if registry.ca_file:
            from providers.outbound.trust import Trust

            found.check(Trust(registry.ca_file).context)
        found.check(lambda: check_models(registry, thoroughly=True))
        tracing = found.check(read_tracing_settings)
        if tracing is not None and tracing.otel_endpoint:
            from interfaces.tracing.wanted import check_tracing
            from providers.outbound.network import Network

            found.warnings += found.check(lambda: check_tracing(tracing, Network(policy))) or []
        found.warnings += model_warnings(registry)
        if found.check(read_declared_connections):
            found.check(lambda: declared_connections(discover(ProviderRegistry()), operators_placeholders(registry)))
    found.warnings += lacking()
    if storage is not None:
        if storage.tls_cert:
            from wrapper.serving.certificate import tls_context, validity_warnings

            if found.check(lambda: tls_context(storage.tls_cert, storage.tls_key)):
                found.warnings += validity_warnings(storage.tls_cert, datetime.now(UTC))
        found.check(lambda: backup_key(storage))
        found.warnings += key_warnings(storage.backup_key_file, FILE)
        if (folder := storage.backup_dir) is not None:
            found.check(lambda: check_folder(folder, storage.data_dir, DIR))
        found.check(lambda: check_port(storage))
        if found.check(lambda: check_data_directory(storage.data_dir)):
            found.check(lambda: check_catalogue(storage) if catalogue_path(storage) else _check_database(storage))
            found.warnings += disk_warnings(storage)
            if access is not None and not access.secret_key:
                found.check(KeyFile(storage.data_dir).check)
    if access is not None and storage is not None and users is not None and not found.problems:
        found.check(lambda: check_door(access, storage.host, lambda: users.has_users or _has_keys(storage)))
    return found


def _has_keys(settings: WrapperSettings) -> bool:
    from wrapper.access.directory_keys import has_keys

    return has_keys(settings)


def _check_database(settings: WrapperSettings) -> None:
    from wrapper.catalog_choice import check_access

    check_access(settings)
