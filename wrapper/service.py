"""Builds the storage proxy from its settings, and closes it again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime

from schemas.errors import RagError
from schemas.settings import HOSTED, KEYS, OPEN, AccessSettings, WrapperSettings, read_oidc_settings
from schemas.storage.engine_records import AUTO, FULL, VECTORS
from schemas.storage.health import CatalogHealth, EngineHealth, Notice, Part, ServiceHealth, StorageHealth
from wrapper.access.configured_key import bootstrap_key
from wrapper.access.stored_keys import StoredKeys
from wrapper.audit.opening import open_recorder
from wrapper.audit.recording import Recorder
from wrapper.audit.refusals import MINUTE_SECONDS
from wrapper.background import Look, Looks
from wrapper.backups.service_backups import Backups
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.tombstones import TombstoneSweeper
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.index_state import adoptions, outbox, reports, states
from wrapper.catalog.index_state.status import hindrances, number_of_collections
from wrapper.catalog.words.merging import WordMerging
from wrapper.catalog_choice import catalog_access
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineAccessError
from wrapper.engine.keeper.cleaning import cleaning_state, request_cleaning
from wrapper.engine.keeper.index_files import IndexFiles
from wrapper.engine.keeper.state import (
    READY,
    STARTING,
    UNRESPONSIVE,
    EngineStateReader,
    request_restart,
)
from wrapper.engine.keeper_process import KeeperGuard
from wrapper.engine.nearest import EngineIndex
from wrapper.engine.tenant_claim import check_owner, claim
from wrapper.engine_choice import (
    engine_client,
    engine_servers,
    identity_of,
    release_of_own_engine,
)
from wrapper.erasing.storage_erasure import StorageErasure
from wrapper.floored_catalog import FlooredCatalog
from wrapper.free_disk import FreeDisk, free_disk_mb
from wrapper.host import Host, open_host
from wrapper.indexing.applying import Applier
from wrapper.indexing.bell import Bell
from wrapper.indexing.indexer import Indexer
from wrapper.indexing.tidying import Tidying
from wrapper.observing.gauges import Gauge, Source
from wrapper.observing.metrics import shared_folder
from wrapper.observing.service_gauges import GAUGE_SECONDS, ServiceGauges
from wrapper.querying.asked_vectors import AskedVectors
from wrapper.querying.held_vectors import SWEEP_SECONDS
from wrapper.querying.planner_setup import open_planner
from wrapper.scoped_store import ScopedStore
from wrapper.store import Store
from wrapper.writing import Writing

LOOK_SECONDS = 2.0
"""The interval of the looks at the catalogue and at a Chroma server of the operator's own."""
ENGINE_SECONDS = 1.0
CATALOG_SECONDS = 5.0
BACKUP_LOOK_SECONDS = 30.0
REFUSING = "refusing"
"""The state of a Chroma server that answers but does not let this service do its work."""
TEXTS_IN_ENGINE = (
    "The engine has the texts of {} collections, and every account of this machine can read them there, past all keys: "
    "'rag-wrapper rebuild --all --records vectors' takes them away, RAG_ENGINE_RECORDS=full lets them stay"
)


class Service:
    """One process's share of the service."""

    def __init__(
        self,
        settings: WrapperSettings,
        host: Host | None,
        catalog: Catalog,
        store: Store,
        indexer: Indexer,
        engine: EngineClient,
        state: EngineStateReader,
        guard: KeeperGuard,
        tidying: Tidying,
        catalogue: str,
        recorder: Recorder,
        backups: Backups,
    ) -> None:
        self.settings = settings
        self.store = store
        """The store itself, for work that is nobody's."""
        self.callers_store = ScopedStore(store)
        """The store as the current caller sees it."""
        self.recorder = recorder
        self.backups = backups
        self._host = host
        self._catalog = catalog
        self._indexer = indexer
        self._engine = engine
        self._state = state
        self._guard = guard
        self._tidying = tidying
        self._catalogue = catalogue
        self._closing: list[Callable[[], None]] = []
        self._reporting: list[Callable[[], Part]] = []
        self.looks = Looks()
        """The background looks at services that may not answer. `on_health` adds their findings to the report."""
        # Its migration has just gone through.
        self._catalog_look = self.looks.add(
            "catalog", self._catalog_answers, True, every_seconds=LOOK_SECONDS, limit_seconds=CATALOG_SECONDS
        )
        self._gauges = ServiceGauges(self.looks, settings, catalog, state)
        minute = MINUTE_SECONDS
        self.looks.add("audit log", recorder.tell_refusals, None, every_seconds=minute, limit_seconds=minute)
        if settings.backup_every is not None:
            self.looks.add("backups", backups.look, None, every_seconds=BACKUP_LOOK_SECONDS, limit_seconds=LOOK_SECONDS)
        self._engine_look: Look[tuple[str, str]] | None = None
        if settings.chroma_url:
            self._engine_look = self.looks.add(
                "engine", self._ask_engine, (STARTING, ""), every_seconds=LOOK_SECONDS, limit_seconds=ENGINE_SECONDS
            )

    @property
    def id(self) -> str:
        """What tells this service's data from those of all other services: the identity of its catalogue."""
        return self._catalogue

    @property
    def catalog(self) -> FlooredCatalog:
        """The catalogue, in whose database layers above keep tables of their own."""
        return FlooredCatalog(self._catalog, self.store.writing.check_disk)

    def own_servers(self) -> list[tuple[str, int]]:
        """Return the hosts and ports of the engine and of the catalogue's database, which ask for none of our keys."""
        return [*engine_servers(self.settings, self._state), *self._catalog.servers]

    def erasure(self) -> StorageErasure:
        """Return what makes deleted documents disappear from the files of the storage."""
        owns, data_dir = not self.settings.chroma_url, self.settings.data_dir
        return StorageErasure(self._catalog, self._indexer, data_dir, self.backups, owns_engine=owns)

    def stop_waiting(self) -> None:
        """Let no request wait for changes any more: the service stops. Signal handlers may call this."""
        self.store.following.stop_waiting()

    def on_close(self, close: Callable[[], None]) -> None:
        """Call `close` before this service closes the rest; the last one registered is called first."""
        self._closing.append(close)

    def on_health(self, report: Callable[[], Part]) -> None:
        """Add the part that `report` returns to the health of this service; `report` neither raises nor waits."""
        self._reporting.append(report)

    def close(self) -> None:
        """Stop what this process started. Writes that wait for the index stay in the outbox."""
        self.stop_waiting()
        while self._closing:
            self._closing.pop()()
        self.looks.close()
        self._tidying.stop(timeout_seconds=10.0)
        self._indexer.stop(timeout_seconds=10.0)
        self._engine.close()
        self._catalog.close()
        self.recorder.close()
        self._guard.close()
        if self._host is not None:
            self._host.close()

    def health(self) -> ServiceHealth:
        """Return the state of the storage and of the parts above it. Never raises."""
        return ServiceHealth(self.storage_health(), [report() for report in self._reporting], datetime.now(UTC))

    def is_ready(self) -> bool:
        """Return whether the service can do its work, as was last seen, without waiting."""
        seen = self._catalog_look.last()
        return seen.found and not seen.is_late

    def on_gauges(self, name: str, source: Source, *, every_seconds: float = GAUGE_SECONDS) -> None:
        """Add the gauges that `source` reads to `/metrics`; it is called in the background."""
        self._gauges.add(name, source, every_seconds=every_seconds)

    def gauges(self) -> Iterator[Gauge]:
        """Yield the gauges of `/metrics`, which wait for nothing: what is not known at once was read before."""
        yield from self._gauges.all(self._engine_health(), catalogue_works=self.is_ready())

    def storage_health(self) -> StorageHealth:
        """Return the state of the storage alone. Never raises."""
        known, fault = None, ""
        try:
            with self._catalog.read() as transaction:
                known = CatalogHealth(
                    collections=number_of_collections(transaction),
                    index_lag=outbox.lag(transaction),
                    indexes=reports.summary(transaction),
                    adoptions=adoptions.report(transaction),
                    hindrances=hindrances(transaction),
                )
        except RagError as error:
            fault = error.message
        return StorageHealth(
            engine=self._engine_health(),
            catalog_kind=self._catalog.kind,
            catalog=known,
            fault=fault,
            disk_free_mb=free_disk_mb(self.settings.data_dir),
            disk_floor_mb=self.settings.disk_floor_mb,
        )

    def _engine_health(self) -> EngineHealth:
        if self._engine_look is not None:
            seen = self._engine_look.last()
            status, message = (UNRESPONSIVE, "") if seen.is_late else seen.found
            return EngineHealth(status, "remote", message, seen.age_seconds)
        state = self._state.read()
        cleaning = cleaning_state(self.settings.data_dir)
        return EngineHealth(state.state, "child", restarts=state.restarts, since=state.since, cleaning=cleaning)

    def _ask_engine(self) -> tuple[str, str]:
        """Return (status of the Chroma server, a sentence where it does not let this service do its work)."""
        try:
            self._engine.heartbeat(timeout_seconds=ENGINE_SECONDS)
            check_owner(self._engine, self._catalogue, timeout_seconds=ENGINE_SECONDS)
        except EngineAccessError as error:
            return REFUSING, error.message
        except RagError as error:
            return UNRESPONSIVE, error.message
        return READY, ""

    def _catalog_answers(self) -> bool:
        try:
            with self._catalog.read() as transaction:
                transaction.rows("SELECT key FROM collections LIMIT 1")
        except RagError:
            return False
        return True


def open_service(settings: WrapperSettings, access: AccessSettings, *, serves: bool = True) -> Service:
    """Open the catalogue and start this process's threads.

    The process also owns the directory and the engine, unless its parent does. `serves` as in `open_host`.
    """
    hosted = os.environ.get(HOSTED) == str(os.getppid())
    host = None if hosted else open_host(settings, access, serves=serves)
    databases = catalog_access(settings)
    catalog = Catalog(databases.database)
    catalog.open()
    state = EngineStateReader(settings.data_dir)
    catalogue = identity_of(catalog)
    engine = engine_client(settings)
    index = EngineIndex(engine, (lambda: True) if settings.chroma_url else (lambda: state.read().ready))

    def incarnation() -> object:
        if settings.chroma_url:
            return settings.chroma_url
        now = state.read()
        return (now.pid, now.pid_started) if now.ready else None

    guard = KeeperGuard(settings.data_dir, state)
    free_disk = FreeDisk(settings.data_dir)

    def may_store() -> bool:
        return free_disk() >= settings.disk_floor_mb

    new_records = _new_records(settings, access, catalog)
    asked = AskedVectors()
    applier = Applier(
        catalog,
        engine,
        incarnation=incarnation,
        restart_engine=lambda: request_restart(settings.data_dir),
        revive_engine=guard.check,
        index_bytes=(lambda _: None) if settings.chroma_url else IndexFiles(settings.data_dir).bytes_of,
        may_store=may_store,
        claim=(lambda: claim(engine, catalogue)) if settings.chroma_url else None,
        engine_release=engine.version if settings.chroma_url else release_of_own_engine,
        adopts=settings.adopt,
        records=new_records,
        clean=(lambda: None) if settings.chroma_url else lambda: request_cleaning(settings.data_dir),
        least_recall=settings.recall,
        questions=asked.of,
    )
    shared = shared_folder()
    bell = Bell(None if shared is None else shared / "indexer.bell")
    indexer = Indexer(catalog, applier, databases.leadership(), clock=time.monotonic, bell=bell)
    writing = Writing(
        catalog,
        indexer,
        free_disk_mb=free_disk,
        disk_floor_mb=settings.disk_floor_mb,
        write_wait=settings.write_wait,
        write_wait_seconds=settings.write_wait_seconds,
        waiting_writers=settings.waiting_threads,
    )
    documents = HeldDocuments()
    planner, held = open_planner(settings, catalog, index, documents, asked, free_disk)
    store = Store(catalog, planner, indexer, writing, documents)
    words, sweeper = WordMerging(catalog, time.monotonic), TombstoneSweeper(catalog, settings.tombstone_days, time.time)
    tidying = Tidying([words.step, store.copying.sweep, sweeper.step], lambda: indexer.leads)
    indexer.start()
    tidying.start()
    recorder = open_recorder(settings, access, may_store=may_store)
    backups = Backups(settings, databases.copies, catalogue)
    service = Service(
        settings, host, catalog, store, indexer, engine, state, guard, tidying, catalogue, recorder, backups
    )
    if settings.engine_records == AUTO:
        service.on_health(lambda: _texts_in_engine(catalog, new_records))
    service.on_close(held.close)
    service.looks.add("codes", held.sweep, None, every_seconds=SWEEP_SECONDS, limit_seconds=LOOK_SECONDS)
    return service


def _new_records(settings: WrapperSettings, access: AccessSettings, catalog: Catalog) -> Callable[[], str]:
    """Return what says what the engine's records of a new collection have, as the settings want it.

    An engine of our own answers every account of the machine. Once keys decide who may read, it gets no texts.
    """
    if settings.engine_records != AUTO:
        return lambda: settings.engine_records
    if settings.chroma_url or access.access == OPEN:
        return lambda: FULL
    if access.access == KEYS or bootstrap_key(access) or read_oidc_settings().has_users:
        return lambda: VECTORS
    stored = StoredKeys(catalog)
    return lambda: VECTORS if stored.state()[1] else FULL


def _texts_in_engine(catalog: Catalog, new_records: Callable[[], str]) -> Notice:
    number = 0
    with suppress(RagError):  # the catalogue's own part of the report tells of it
        if new_records() == VECTORS:
            with catalog.read() as transaction:
                number = states.number_with_texts(transaction)
    return Notice(TEXTS_IN_ENGINE.format(number) if number else "")
