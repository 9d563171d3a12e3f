"""Which engine the settings ask for, and whose it is."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import structlog

from schemas.errors import ConfigurationError, RagError
from schemas.settings import WrapperSettings
from wrapper.catalog import identity
from wrapper.catalog.catalog import Catalog
from wrapper.catalogs import catalog_access
from wrapper.engine.access import EngineAccess
from wrapper.engine.claim import EngineOwnedError, claim
from wrapper.engine.client import EngineClient
from wrapper.engine.state import EngineStateReader

log = structlog.get_logger(__name__)


def engine_client(settings: WrapperSettings) -> EngineClient:
    """Of the Chroma server in the settings, or of the engine in the data directory, wherever it is now."""
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


def release_of_own_engine() -> str:
    return f"chromadb {version('chromadb')}"


def identity_of(catalog: Catalog) -> str:
    """What the mark in a Chroma server says of this catalogue."""
    with catalog.read() as transaction:
        return identity.find(transaction)


def claim_engine(settings: WrapperSettings) -> None:
    """Make the Chroma server in the settings ours before anything is started. Raises ConfigurationError when it is
    another catalogue's; one that does not answer is asked again while the service runs."""
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
