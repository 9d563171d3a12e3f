"""Opens the engine that the settings ask for, and claims it for this catalogue."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from schemas.errors import ConfigurationError, RagError
from schemas.settings import WrapperSettings
from wrapper.catalog import identity
from wrapper.catalog.catalog import Catalog
from wrapper.catalog_choice import catalog_access
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.state import EngineStateReader
from wrapper.engine.server_access import EngineAccess
from wrapper.engine.tenant_claim import EngineOwnedError, claim

log = structlog.get_logger(__name__)


def engine_client(settings: WrapperSettings) -> EngineClient:
    """Return a client of the Chroma server in the settings, or of the data directory's engine, wherever it is now."""
    if not settings.chroma_url:
        return EngineClient(EngineStateReader(settings.data_dir).url)
    access = EngineAccess(
        tenant=settings.chroma_tenant,
        database=settings.chroma_database,
        token=settings.chroma_token,
        token_header=settings.chroma_token_header,
        ca_file=Path(settings.chroma_ca_file) if settings.chroma_ca_file else None,
    )
    return EngineClient(lambda: settings.chroma_url, access=access)


def engine_servers(settings: WrapperSettings, state: EngineStateReader) -> list[tuple[str, int]]:
    """Return the host and port at which the engine is now, nothing while there is none."""
    parts = urlsplit(settings.chroma_url or state.read().url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return [(parts.hostname, port)] if parts.hostname else []


def release_of_own_engine() -> str:
    return f"chromadb {version('chromadb')}"


def identity_of(catalog: Catalog) -> str:
    """Return the name of this catalogue in the owner's mark of a Chroma server."""
    with catalog.read() as transaction:
        return identity.find(transaction)


def claim_engine(settings: WrapperSettings) -> None:
    """Claim the Chroma server in the settings before anything is started.

    A server that does not answer is asked again while the service runs. Raises ConfigurationError when it belongs to
    another catalogue.
    """
    if not settings.chroma_url:
        return
    catalog = Catalog(catalog_access(settings).database)
    engine = engine_client(settings)
    try:
        catalog.open()
        claim(engine, identity_of(catalog))
    except EngineOwnedError as error:
        raise ConfigurationError(error.message, field="RAG_CHROMA_URL") from None
    except ConfigurationError:
        raise
    except RagError as error:
        log.warning("the Chroma server cannot be used yet", reason=error.message)
    finally:
        engine.close()
        catalog.close()
