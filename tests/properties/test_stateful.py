"""After any sequence of writes, engine failures and restarts, the store answers like the model and its tables are
consistent.

Once the engine is healthy again, it equals the catalogue.
"""

import copy
import shutil
import tempfile
from itertools import count
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schemas.where import parse_where
from tests.properties.consistency import catalog_state, check_engine, check_tables, model_state
from tests.properties.fake_engine import FakeEngine
from tests.properties.operations import ADDITIONS, CREATIONS, FILTERED, NAMES, OPERATIONS
from tests.properties.processes import Process
from tests.properties.strategies import embedding
from wrapper.engine.failures import EngineBrokenError, EngineCollectionMissingError, EngineUnavailableError

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


TestService = Service.TestCase
TestService.settings = settings(stateful_step_count=25)
