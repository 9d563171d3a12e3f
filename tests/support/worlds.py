"""Run a service without threads on an engine in memory, which tests make fail in the ways a real one does."""

import numpy as np

from schemas.records import DocumentBatch
from schemas.where import parse_where
from tests.properties.consistency import check_engine
from tests.properties.fake_engine import FakeEngine
from tests.properties.processes import Process
from tests.properties.stories import add
from tests.properties.strategies import embedding
from wrapper.engine.failures import EngineBrokenError, EngineRefusedError
from wrapper.writing import WriteOptions

OPTIONS = WriteOptions()


class World:
    """A service without threads on a fake engine that can be made to fail."""

    def __init__(self, directory, engine=None, *, clock=None, **options):
        self.engine = engine or FakeEngine()
        self.process = Process(directory, self.engine, clock=clock, **options)
        self.process.engine.before = self._before
        self.process.engine.after = self._after
        self.names = []
        self.failing = {}
        self.after = {}
        self.process.lead()
        self.process.drain()

    def _before(self, name):
        self.names.append(name)
        if self.failing.get(name):
            raise self.failing[name].pop(0)

    def _after(self, name):
        if self.after.get(name):
            raise self.after[name].pop(0)

    @property
    def store(self):
        return self.process.store

    def fill(self, name="docs", count=3):
        self.store.create_collection(name, {"topic": "x"}, "cosine", OPTIONS)
        add(name, *((f"d{n}", {"n": n, "old": True}, n) for n in range(count))).run(self.store)
        self.process.drain()
        self.names.clear()

    def vector(self, number):
        return np.array(embedding(number, 3), dtype="<f4")

    def batch(self, *ids):
        vectors = np.stack([self.vector(100 + place) for place in range(len(ids))])
        return DocumentBatch(list(ids), [f"text of {each}" for each in ids], [{} for _ in ids], vectors)

    def where(self, condition):
        return parse_where(condition)

    def state(self, name="docs"):
        return self.store.collection(name).index_state

    def plan(self, name="docs"):
        return self.process.planner.query(name, np.ones(3, dtype="<f4"), top_k=1).plan

    def check(self):
        check_engine(self.process.path, self.engine)

    def records(self, name="docs"):
        found = self.engine.get(self.engine.get_collection(name).id)
        return dict(zip(found.ids, found.metadatas, strict=True))


class BrittleEngine(FakeEngine):
    """An engine that fails as Chroma does: it refuses ids in `refusing` together with everything sent with them, and a
    collection that gets an id in `breaking` answers every later request with an internal error."""

    def __init__(self):
        super().__init__()
        self.refusing = set()
        self.breaking = set()
        self.broken = set()
        self.sent = []

    def upsert(self, engine_id, ids, *args, **kwargs):
        self._held(engine_id)
        self.sent.append(list(ids))
        if self.refusing & set(ids):
            raise EngineRefusedError("The engine refused the request", status=413)
        if self.breaking & set(ids):
            self.broken.add(engine_id)
        self._check(engine_id)
        super().upsert(engine_id, ids, *args, **kwargs)

    def delete(self, engine_id, ids):
        self._check(engine_id)
        super().delete(engine_id, ids)

    def count(self, engine_id):
        self._check(engine_id)
        return super().count(engine_id)

    def query(self, engine_id, *args):
        self._check(engine_id)
        return super().query(engine_id, *args)

    def _check(self, engine_id):
        if engine_id in self.broken:
            raise EngineBrokenError("The engine failed")
