"""What must hold before the whole service starts: looked at all at once, before anything is started.

Modules are imported when they are needed: what is wrong is told within a second.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from schemas.errors import RagError
from schemas.settings import (
    WrapperSettings,
    read_declared_connections,
    read_registry_settings,
    read_retrieval_settings,
    read_wrapper_settings,
    unknown_variables,
)

FoundT = TypeVar("FoundT")


@dataclass
class Findings:
    """What stands in the way of a start, and what is only worth saying: a sentence each. `settings` are the storage
    proxy's, None when they are among the problems."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    settings: WrapperSettings | None = None

    def check(self, look: Callable[[], FoundT]) -> FoundT | None:
        """What `look` returns; None when it raised, which is a problem."""
        try:
            return look()
        except RagError as error:
            self.problems.append(" ".join(error.message.split()))
            return None


def look_before_start() -> Findings:
    """Settings, models, declared connections, port and data directory."""
    found = Findings()
    found.settings = storage = found.check(read_wrapper_settings)
    registry = found.check(read_registry_settings)
    found.check(read_retrieval_settings)
    found.warnings += unknown_variables(os.environ, () if registry is None else registry.env_patterns)
    if registry is not None:
        from interfaces.configured import check_models, model_warnings
        from providers.addresses import ConnectPolicy
        from registry.secret_hosts import SecretHosts

        found.check(lambda: ConnectPolicy.parse(registry.connect_policy))
        found.check(lambda: SecretHosts.parse(registry.secret_hosts))
        found.check(lambda: check_models(registry, thoroughly=True))
        found.warnings += model_warnings(registry)
        if found.check(read_declared_connections):
            from interfaces.compose import check_declared_connections

            found.check(check_declared_connections)
    if storage is not None:
        from wrapper.starting import catalogue_path, check_catalogue, check_data_directory, check_port, disk_warnings

        found.check(lambda: check_port(storage))
        if found.check(lambda: check_data_directory(storage.data_dir)):
            found.check(lambda: check_catalogue(storage) if catalogue_path(storage) else _check_database(storage))
            found.warnings += disk_warnings(storage)
    return found


def _check_database(settings: WrapperSettings) -> None:
    from wrapper.catalogs import check_access

    check_access(settings)
