"""What exists once for all workers of a service: its data directory, an up-to-date catalogue and the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigurationError, RagError
from schemas.settings import AccessSettings, WrapperSettings, read_oidc_settings
from wrapper.access.configured_key import check_door
from wrapper.access.stored_keys import StoredKeys
from wrapper.backups.before_migration import keep_before_migration, note_release
from wrapper.backups.making import sweep_killed
from wrapper.backups.moves import complete_moves
from wrapper.catalog.catalog import Catalog
from wrapper.catalog_choice import CatalogAccess, catalog_access
from wrapper.catalogue_mark import check_mark, check_none_made, mark
from wrapper.catalogue_presence import existing_catalogue
from wrapper.engine.data_directory_lock import DataDirectoryLock, acquire
from wrapper.engine.keeper_process import KeeperProcess, start_keeper
from wrapper.engine_choice import claim_engine
from wrapper.secret_key import KeyFile


@dataclass
class Host:
    """The parts that exist once for all workers of a service: the data directory's lock and the engine's keeper."""

    lock: DataDirectoryLock
    keeper: KeeperProcess | None

    def close(self) -> None:
        if self.keeper is not None:
            self.keeper.stop()
        self.lock.release()


def open_host(settings: WrapperSettings, access: AccessSettings, *, serves: bool = True) -> Host:
    """Lock the data directory, make the key of its secrets, bring the catalogue up to date and start the engine.

    A service that `serves` leaves its address for others to find. Raises ConfigurationError when another service owns
    the directory, a running one feeds another engine from the same catalogue, the Chroma server belongs to another
    catalogue, other machines could reach a service without keys, or one that does not serve would take another
    catalogue for that of the directory's service.
    """
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = {"address": f"{settings.scheme}://{host}:{settings.port}"} if serves else {}
    if serves and settings.tls_cert:
        address["certificate"] = str(Path(settings.tls_cert).absolute())
    lock = acquire(settings.data_dir, description={"command": "rag-wrapper", **address})
    try:
        complete_moves(settings)
        sweep_killed(settings.data_dir)
        if not access.secret_key:
            KeyFile(settings.data_dir).make()
        if not serves:
            check_none_made(settings)
        catalogue = catalog_access(settings)
        catalogue.check()
        keep_before_migration(settings, catalogue)
        _bring_up_to_date(catalogue, lambda catalog: _check_start(settings, access, catalog, serves=serves))
        note_release(settings.data_dir)
        claim_engine(settings)
        keeper = None if settings.chroma_url else start_keeper(settings.data_dir, service_port=settings.port)
    except BaseException:
        lock.release()
        raise
    return Host(lock, keeper)


def _check_start(settings: WrapperSettings, access: AccessSettings, catalog: Catalog, *, serves: bool) -> None:
    if not serves:
        check_mark(settings.data_dir, catalog)
    # First, so that a key for the door can be made in this catalogue.
    mark(settings.data_dir, catalog)
    if serves:
        check_door(access, settings.host, lambda: read_oidc_settings().has_users or StoredKeys(catalog).state()[1])


@contextmanager
def opened_catalogue(settings: WrapperSettings) -> Iterator[Catalog]:
    """Give the catalogue alone, beside a running service or without one.

    Raises ConfigurationError when there is none yet, or the service of the directory works with another one.
    """
    access = existing_catalogue(settings)
    keep_before_migration(settings, access)
    catalog = Catalog(access.database)
    try:
        catalog.open()
        check_mark(settings.data_dir, catalog)
        note_release(settings.data_dir)
        yield catalog
    finally:
        catalog.close()


def _bring_up_to_date(access: CatalogAccess, check: Callable[[Catalog], None]) -> None:
    # This runs once, before there are workers: it may take minutes, and their time limits would end it.
    catalog = Catalog(access.database)
    try:
        catalog.open()
        check(catalog)
    except ConfigurationError:
        raise
    except RagError as error:
        reason = getattr(error.__cause__, "orig", error.__cause__) or error.message
        raise ConfigurationError(f"The catalogue cannot be used: {' '.join(str(reason).split())}") from error
    finally:
        catalog.close()
