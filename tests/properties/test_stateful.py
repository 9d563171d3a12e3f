"""After any sequence of writes, engine failures and restarts, the store answers like the model and its tables are consistent.

Once the engine is healthy again, it equals the catalogue; whatever happens between two steps of the indexer, nothing is
left over. Waiting writers, entries that are applied twice and what the engine lost by itself: tests/wrapper/indexing.
"""

import copy
import shutil
import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.records import DocumentPatch
from schemas.where import parse_where
from tests.properties.consistency import catalog_state, check_engine, check_tables, model_state
from tests.properties.fake_engine import FakeEngine
from tests.properties.operations import ADDITIONS, CREATIONS, FILTERED, NAMES, OPERATIONS
from tests.properties.processes import Process
from tests.properties.stories import add
from tests.properties.strategies import embedding
from tests.support.worlds import OPTIONS, World
from wrapper.catalog.index_state import outbox, states
from wrapper.engine.failures import EngineBrokenError, EngineCollectionMissingError, EngineUnavailableError
from wrapper.indexing import rebuilding

FAILURES = (EngineUnavailableError, EngineBrokenError, EngineCollectionMissingError)


class Service(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.engine = FakeEngine()
        self.model = {}
        self.keys = count()
        self.written = {}
        self.failures = []
        self._start()

    def _start(self):
        self.process = Process(self.directory, self.engine)
        self.process.engine.before = self._fail_before
        self.process.engine.after = self._fail_after
        self.process.lead()

    def _fail_before(self, name):
        if self.failures and not self.failures[0][1]:
            raise self.failures.pop(0)[0]("injected")

    def _fail_after(self, name):
        if self.failures and self.failures[0][1]:
            raise self.failures.pop(0)[0]("injected after it was done")

    @initialize(creations=st.tuples(CREATIONS, CREATIONS), additions=st.lists(ADDITIONS, min_size=2, max_size=4))
    def begin(self, creations, additions):
        for operation in (*creations, *additions):
            self.write(operation)

    @rule(operation=OPERATIONS)
    def write(self, operation):
        key = f"key-{next(self.keys)}"
        before = copy.deepcopy(self.model)
        answer = operation.run(self.process.store, key)
        expected = operation.apply(self.model)
        assert answer == expected
        if expected is None:
            self.model = before
            return
        if operation.kind == "drop":
            # Answers about the deleted collection do not apply to a later one of the same name.
            self.written = {each: done for each, done in self.written.items() if done[0].name != operation.name}
        else:
            self.written[key] = (operation, answer)

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def repeat(self, data):
        key = data.draw(st.sampled_from(sorted(self.written)))
        operation, answer = self.written[key]
        assert operation.run(self.process.store, key) == answer

    @rule(rounds=st.integers(1, 3))
    def index(self, rounds):
        self.process.drain(rounds)

    @rule(failures=st.lists(st.tuples(st.sampled_from(FAILURES), st.booleans()), min_size=1, max_size=4))
    def break_engine(self, failures):
        self.failures = failures

    @rule()
    def restart_service(self):
        self.process.close()
        self._start()

    @rule()
    def restart_engine(self):
        self.process.restarts_asked += 1

    @rule(up=st.booleans())
    def switch_engine(self, up):
        self.process.engine_up = up

    @rule(name=NAMES)
    def lose_engine_collection(self, name):
        self.engine.delete_collection(name)
        self.process.restarts_asked += 1

    def searchable(self):
        return sorted(name for name, each in self.model.items() if each.dimension is not None)

    @precondition(searchable)
    @rule(data=st.data(), seeds=st.lists(st.integers(0, 50), min_size=1, max_size=3), where=FILTERED)
    def query(self, data, seeds, where):
        name, top_k = data.draw(st.sampled_from(self.searchable())), data.draw(st.integers(1, 4))
        collection = self.model[name]
        for seed, asked in ((seed, asked) for seed in seeds for asked in ({}, where)):
            query = embedding(seed + 100, collection.dimension)
            found = self.process.planner.query(name, query, top_k=top_k, where=parse_where(asked))
            expected = collection.nearest(query, top_k, asked)
            assert {match.document.id for match in found.matches} == {each for each, _ in expected} or [
                round(match.distance, 9) for match in found.matches
            ] == [round(distance, 9) for _, distance in expected]

    @invariant()
    def catalogue_equals_model(self):
        assert catalog_state(self.process.path) == model_state(self.model)

    def teardown(self):
        try:
            self.failures = []
            self.process.engine_up = True
            self.process.drain()
            check_tables(self.process.path)
            check_engine(self.process.path, self.engine)
        finally:
            self.process.close()
            shutil.rmtree(self.directory)


TestService = pytest.mark.slow(Service.TestCase)
TestService.settings = settings(stateful_step_count=25)


DOCUMENTS_PER_CALL, DOCUMENTS = 3, 10
IDS = [f"d{number}" for number in range(DOCUMENTS)]


def _write(world):
    add("docs", ("d0", {"page": 1}, 20), ("d9", {"page": 1}, 21), ("new", {"page": 1}, 22)).run(world.store)
    world.store.delete_documents("docs", OPTIONS, ids=["d1", "d8"])
    world.store.patch_document("docs", "d2", DocumentPatch(metadata={"old": None}), OPTIONS)


def _take_another_dimension(world):
    world.store.empty_collection("docs", OPTIONS)
    add("docs", ("a", {}, 1), ("d3", {}, 2), dimension=7).run(world.store)


def _delete(world):
    world.store.delete_collection("docs", OPTIONS)


def _make_anew(world):
    _delete(world)
    world.store.create_collection("docs", {}, "l2", OPTIONS)
    add("docs", ("d5", {}, 1)).run(world.store)


def _lead_again(world):
    world.process.lead_again()
    assert world.state() == states.REBUILDING


HAPPENINGS = {
    "documents are written": (_write, [{*IDS, "late", "new"} - {"d1", "d8"}]),
    "the collection takes another dimension": (_take_another_dimension, [{"a", "d3"}]),
    "the collection is deleted": (_delete, []),
    "another is made under its name": (_make_anew, [{"d5"}]),
    "another process takes the lead": (_lead_again, [{*IDS, "late"}]),
}


@pytest.mark.slow
@pytest.mark.parametrize("happening", HAPPENINGS)
def test_whatever_happens_during_a_rebuild_the_engine_equals_the_catalogue(tmp_path, monkeypatch, happening):
    monkeypatch.setattr(rebuilding, "DOCUMENTS_PER_CALL", DOCUMENTS_PER_CALL)
    happen, expected = HAPPENINGS[happening]
    for steps in count():
        (tmp_path / str(steps)).mkdir()
        world = World(tmp_path / str(steps))
        world.fill(count=DOCUMENTS)
        world.engine.delete_collection("docs")
        add("docs", ("late", {}, 11)).run(world.store)
        world.process.drain(rounds=1)
        assert world.state() == states.REBUILDING
        for _ in range(steps):
            world.process.applier.maintain()
        if not world.process.applier.busy_collections():
            world.process.close()
            break
        happen(world)
        world.process.drain()
        world.check()
        check_tables(world.process.path)
        found = [{each[0] for each in documents} for *_, documents in catalog_state(world.process.path).values()]
        assert found == expected, f"after {steps} steps"
        world.process.close()
    assert steps > DOCUMENTS // DOCUMENTS_PER_CALL


def test_a_collection_may_be_made_again_before_the_old_one_is_dropped(tmp_path):
    world = World(tmp_path)
    world.fill()
    _make_anew(world)
    with world.process.catalog.read() as transaction:
        drop, create, documents = outbox.oldest(transaction, limit=10)
    assert (drop.kind, create.kind) == (outbox.DROP, outbox.CREATE)
    for entry in (create, documents, drop):
        world.process.applier.apply([entry])
        world.process.catalog.commit(lambda transaction, entry=entry: outbox.remove(transaction, [entry.id]))
    world.process.drain()
    world.check()


def test_a_collection_deleted_while_the_engine_makes_it_is_gone(tmp_path):
    world = World(tmp_path)
    world.store.create_collection("docs", {}, "l2", OPTIONS)
    deleted = []

    def delete_once(name):
        if name == "create_collection" and not deleted:
            deleted.append(name)
            _delete(world)

    world.process.engine.after = delete_once
    world.process.drain()
    assert deleted
    assert world.engine.list_collections() == []
    world.check()
