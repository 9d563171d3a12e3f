"""Whatever is written, and whatever happens to processes and their files of codes, memory answers as the catalogue."""

import random
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.where import parse_where
from tests.properties.catalogs import open_catalog
from tests.support.catalogues import one_database
from tests.wrapper.documents import NoIndex, add, create, delete
from wrapper.catalog import document_changes, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.tombstones import TombstoneSweeper
from wrapper.catalog.names import collection_writes
from wrapper.querying import code_files, held_vectors, kept_codes
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner

NAME, DIMENSION, PROCESSES = "written", 3, 2
FREE = CostModel(exact_per_document=1.0, memory_base=0.0, reading_per_document=1e-9, reading_per_component=0.0)
"""Every query pays for reading a collection."""


class Killed(BaseException):
    """The process was killed."""


IDS = st.lists(st.sampled_from([f"d{n}" for n in range(30)]), min_size=1, max_size=12, unique=True)
SEED = st.integers(0, 2**20)
PROCESS = st.integers(0, PROCESSES - 1)
STEP = st.one_of(
    st.tuples(st.just("add"), IDS, SEED),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("patch"), IDS),
    st.sampled_from([("empty",), ("anew",), ("sweep",), ("nothing",), ("nothing",)]),
    st.tuples(st.just("restart"), PROCESS),
    st.tuples(st.just("kill"), PROCESS, st.sampled_from(["posix_fallocate", "pwrite", "replace"])),
    st.tuples(st.just("damage"), SEED),
    st.tuples(st.just("remove"), SEED),
)
STEPS = st.lists(st.tuples(STEP, PROCESS, SEED), min_size=5, max_size=30)
"""What happens, and a query to a process after it."""


class Clock:
    now = 0.0

    def __call__(self):
        self.now += 10.0
        return self.now


class World:
    """Processes of a service, which share a catalogue and a folder of codes."""

    def __init__(self, folder):
        self._folder = folder
        self._clock = Clock()
        self.catalog = open_catalog(folder / "catalog.sqlite")
        self._truth = Planner(self.catalog, NoIndex())
        self._processes = {}
        self.plans = set()
        self._commit(collection_writes.create_collection, {}, "l2")

    def do(self, kind, *asked):
        getattr(self, kind)(*asked)

    def add(self, ids, seed):
        # Few different vectors, so that many are equally far.
        vectors = np.random.default_rng(seed).integers(-2, 3, (len(ids), DIMENSION)).astype("<f4")
        add(self.catalog, NAME, ids, metadatas=[{"odd": seed % 2} for _ in ids], vectors=vectors)

    def delete(self, ids):
        self._commit(writes.delete_documents, ids=ids)

    def patch(self, ids):
        self.catalog.commit(document_changes.patching_metadata(NAME, {"odd": 1}, ids=ids, where=parse_where({})).store)

    def nothing(self):
        pass

    def empty(self):
        self._commit(collection_writes.empty_collection)

    def anew(self):
        self._commit(collection_writes.delete_collection)
        self._commit(collection_writes.create_collection, {}, "l2")
        self.add(["d1", "d2", "d3"], 1)

    def sweep(self):
        TombstoneSweeper(self.catalog, 1, lambda: 1e12).step()

    def restart(self, process):
        self._processes.pop(process, None)

    def kill(self, process, step):
        """Kill a process while it makes codes, if it does so now."""

        def end(*arguments):
            raise Killed

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(code_files.os, step, end)
            patched.setattr(code_files.Path, "unlink", lambda *arguments, **options: None)
            with suppress(Killed):
                self.query(process, 1)
        self.restart(process)

    def damage(self, seed):
        """Change a byte of a file that no process has mapped."""
        self._processes.clear()
        chosen = random.Random(seed)
        for path in sorted((self._folder / "codes").glob("*.codes")):
            content = bytearray(path.read_bytes())
            content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
            path.write_bytes(content)

    def remove(self, seed):
        files = sorted((self._folder / "codes").glob("*"))
        if files:
            random.Random(seed).choice(files).unlink()

    def query(self, process, seed):
        vector = np.random.default_rng(seed).integers(-2, 3, DIMENSION).astype("<f4")
        asked = {"top_k": 1 + seed % 7, "where": parse_where({"odd": 1} if seed % 3 == 0 else {})}
        found = self._process(process).query(NAME, vector, **asked)
        self.plans.add(found.plan)
        expected = self._truth.query(NAME, vector, **asked)
        assert [(match.document.id, match.distance) for match in found.matches] == [
            (match.document.id, match.distance) for match in expected.matches
        ]

    def _process(self, number):
        if number not in self._processes:
            files = CodeFiles(self._folder / "codes", 100_000)
            held = HeldVectors(100_000, self.catalog, files, self._clock)
            self._processes[number] = Planner(self.catalog, NoIndex(), FREE, held)
        return self._processes[number]

    def _commit(self, write, *arguments, **options):
        self.catalog.commit(lambda transaction: write(transaction, NAME, *arguments, **options))


@pytest.fixture
def small_growth(monkeypatch):
    monkeypatch.setattr(kept_codes, "LEAST_GROWTH", 6)
    monkeypatch.setattr(kept_codes, "MOST_TIMES_OUTGROWN", 2)
    monkeypatch.setattr(held_vectors, "PAUSES", 0)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_memory_answers_as_the_catalogue(tmp_path_factory, small_growth, steps):
    world = World(tmp_path_factory.mktemp("world"))
    try:
        world.add([f"d{n}" for n in range(20)], 1)
        for (kind, *asked), process, seed in steps:
            world.do(kind, *asked)
            world.query(process, seed)
        for process in range(PROCESSES):
            world.query(process, 3)
    finally:
        world.catalog.close()


def test_these_worlds_answer_from_memory(tmp_path, small_growth):
    world = World(tmp_path)
    ids = [f"d{n}" for n in range(30)]
    world.add(ids, 1)
    for seed in range(5):
        world.query(0, seed)
        world.add(ids[seed : seed + 3], seed)
    assert world.plans == {"memory"}
    world.catalog.close()


class Service:
    """A service that keeps its codes current by the feed, in a folder of its own."""

    def __init__(self, database, folder):
        self.catalog = Catalog(database)
        self.catalog.open()
        held = HeldVectors(1_000_000, self.catalog, CodeFiles(folder, 1_000_000))
        self._planner = Planner(self.catalog, NoIndex(), FREE, held)

    def add(self, ids, value):
        add(self.catalog, NAME, ids, vectors=np.full((len(ids), DIMENSION), value))

    def nearest(self, value):
        found = self._planner.query(NAME, np.full(DIMENSION, value, dtype="<f4"), top_k=1)
        assert found.plan == "memory"
        return found.matches[0].document.id


@pytest.fixture(params=["sqlite", "postgresql"])
def services(request, tmp_path):
    with one_database(request) as open_one:
        services = [Service(open_one(), tmp_path / name) for name in ("one", "two")]
        create(services[0].catalog, NAME, metric="l2")
        services[0].add([f"d{n}" for n in range(50)], 100.0)
        yield services
        for service in services:
            service.catalog.close()


def test_a_write_to_one_service_is_found_by_the_other_at_once(services):
    for turn in range(6):
        writer, other = services[turn % 2], services[(turn + 1) % 2]
        writer.add([f"new{turn}"], turn)
        assert other.nearest(turn) == f"new{turn}"
        assert writer.nearest(turn) == f"new{turn}"
        delete(writer.catalog, NAME, f"new{turn}")
        assert other.nearest(turn) != f"new{turn}"
