"""What the log warns of at the start: secrets that may go anywhere, and stored ones that no key opens."""

from __future__ import annotations

import structlog

from registry.placeholders.resolving import Placeholders
from registry.stored_connections import StoredConnections
from registry.typed_secrets.rotation import typed_secrets_of
from registry.typed_secrets.sealing import Seal
from schemas.errors import ConfigurationError
from schemas.settings import RegistrySettings

log = structlog.get_logger(__name__)


def warn_of_free_secrets(settings: RegistrySettings, placeholders: Placeholders) -> None:
    if not settings.secret_hosts and placeholders.available():
        log.warning(
            "whoever may define connections may send variables to any host: bind them to theirs with RAG_SECRET_HOSTS",
            variables=len(placeholders.available()),
        )


def warn_of_other_keys(stored: StoredConnections, seal: Seal) -> None:
    try:
        closed = sorted({each.connection for each in typed_secrets_of(stored, seal) if not each.opens})
    except ConfigurationError as error:
        log.warning("stored secrets cannot be used", reason=error.message)
        return
    if closed:
        log.warning("stored secrets do not open with the key of this service", connections=closed)
