"""Workers of one catalogue whose engine can be held up, and refuses what it is told to refuse."""

import threading

from schemas.storage.leadership import FileLeadership
from tests.properties.fake_engine import FakeEngine, Interposed
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.clock import Clock
from tests.wrapper.documents import add
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.indexing.applying import Applier
from wrapper.indexing.indexer import Indexer

SECONDS = PATIENCE_SECONDS


class Calls:
    """Records the calls of the engine, in order.

    While `gate` is closed it holds up every call, or those that are named, and it raises what is in `failing`.
    """

    def __init__(self, held=None):
        self._held = held
        self.upserts = []
        self.names = []
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Event()
        self.failing = {}

    def before(self, name):
        self.names.append(name)
        if self._held is not None and name not in self._held:
            return
        self.arrived.set()
        assert self.gate.wait(SECONDS)

    def engine(self, fake=None):
        return _Recorded(fake or FakeEngine(), self)


class _Recorded(Interposed):
    def __init__(self, engine, calls):
        super().__init__(engine, before=calls.before)
        self._calls = calls

    def upsert(self, engine_id, ids, *args, **kwargs):
        self._calls.before("upsert")
        held = self.engine.get_collection_name(engine_id)
        self._calls.upserts.append((held, list(ids)))
        if held in self._calls.failing:
            raise self._calls.failing[held]
        self.engine.upsert(engine_id, ids, *args, **kwargs)


class Workers:
    """One catalogue and one engine; workers are catalogues, appliers and indexers on them."""

    def __init__(self, directory, stack):
        self.directory = directory
        self.calls = Calls()
        self.engine = self.calls.engine()
        self.clock = Clock()
        self.up = True
        self._stack = stack
        self.catalog = self.open_catalog()

    def open_catalog(self):
        catalog = Catalog(SQLiteDatabase(self.directory / "catalog.sqlite"))
        catalog.open()
        self._stack.callback(catalog.close)
        return catalog

    def worker(self, catalog=None, *, leadership=None, engine=None):
        catalog = catalog or self.catalog
        applier = Applier(
            catalog,
            engine or self.engine,
            incarnation=lambda: 1 if self.up else None,
            restart_engine=lambda: None,
            clock=self.clock,
        )
        leadership = leadership or FileLeadership(self.directory / "indexer.lock")
        indexer = Indexer(catalog, applier, leadership, clock=self.clock)
        indexer.start()
        self._stack.callback(self._stop, indexer)
        return indexer

    def _stop(self, indexer):
        self.calls.gate.set()
        indexer.stop(SECONDS)

    def create(self, name):
        return self.catalog.commit(
            lambda transaction: collection_writes.create_collection(transaction, name, {}, "l2")
        )[1].outbox_id

    def add(self, name, *ids, catalog=None, text=None):
        return add(catalog or self.catalog, name, ids, [text or each for each in ids]).outbox_id

    def lag(self):
        with self.catalog.read() as transaction:
            return outbox.lag(transaction)

    def until_applied(self):
        eventually(lambda: self.lag() == 0)
