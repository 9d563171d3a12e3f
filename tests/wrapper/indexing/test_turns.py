"""Rebuilds, checks of indexes and writes take turns: one that fails rests, longer each time, and blocks no other."""

from collections.abc import Collection
from itertools import pairwise

import pytest

from tests.properties.stories import add
from tests.support.live import eventually
from tests.support.worlds import OPTIONS, BrittleEngine, World
from wrapper.catalog.index_state import reports
from wrapper.catalog.rows import all_collections
from wrapper.engine.failures import EngineBrokenError, EngineConflictError, EngineUnavailableError
from wrapper.indexing import checkups, rebuilding
from wrapper.indexing.retry_pauses import Rests

MANY = 60


class StubbornEngine(BrittleEngine):
    """An engine that for some collections always fails a rebuild, or never answers."""

    def __init__(self):
        super().__init__()
        self.stubborn = {}
        self.silent = set()
        self.tries = 0
        self.counted = []
        self.away = False

    def heartbeat(self):
        if self.away:
            raise EngineUnavailableError("away")

    def create_collection(self, name, **kwargs):
        self.heartbeat()
        if name.startswith("rebuild-") and name.split("-")[1] in self.stubborn:
            self.tries += 1
            raise self.stubborn[name.split("-")[1]]
        return super().create_collection(name, **kwargs)

    def count(self, engine_id):
        self.heartbeat()
        self.counted.append(self.get_collection_name(engine_id))
        if self.get_collection_name(engine_id) in self.silent:
            raise EngineUnavailableError("no answer")
        return super().count(engine_id)


@pytest.fixture
def engine():
    return StubbornEngine()


def _key(world, name):
    with world.process.catalog.read() as transaction:
        return next(each.key for each in all_collections(transaction) if each.name == name)


def _are_ready(world, names):
    with world.process.catalog.read() as transaction:
        return all(each.index_state == "ready" for each in all_collections(transaction) if each.name in names)


def _create(world, names):
    for name in names:
        world.store.create_collection(name, {}, "cosine", OPTIONS)


def _looks_at_each(world):
    """Have the engine refuse to tell of all collections at once."""
    world.failing["unused_collections"] = [EngineBrokenError("no list") for _ in range(50)]


@pytest.mark.parametrize(
    "error", [EngineBrokenError("broken"), EngineUnavailableError("no answer"), EngineConflictError("taken")]
)
def test_a_rebuild_that_never_succeeds_holds_up_no_other_index(world, engine, error):
    names = ["bad", "other", "lost", "quiet"]
    for name in names:
        world.fill(name)
    engine.stubborn[str(_key(world, "bad"))] = error
    world.store.indexes.rebuild("bad")
    world.process.drain(rounds=20)
    tries = engine.tries
    assert tries > 0
    engine.delete_collection("lost")
    world.process.restarts_asked += 1
    add("other", ("new", {}, 7)).run(world.store)
    world.process.drain_until(
        lambda: _are_ready(world, names[1:]) and not world.store.indexes.of("other").waiting_writes
    )
    assert world.state("bad") == "rebuilding"
    assert [each.reason for each in world.store.indexes.of("bad").hindrances.standing_still] == [error.message]
    assert "new" in world.records("other")
    assert set(world.records("lost")) == {"d0", "d1", "d2"}
    engine.stubborn.clear()
    world.process.drain_until(lambda: world.state("bad") == "ready")
    assert not world.store.indexes.of("bad").hindrances.standing_still


def test_a_rebuild_that_fails_rests_longer_each_time_up_to_an_end(world, engine):
    world.fill("bad")
    engine.stubborn[str(_key(world, "bad"))] = EngineBrokenError("broken")
    world.store.indexes.rebuild("bad")
    tries = []
    for _ in range(1_500):
        world.process.drain(rounds=1)
        if len(tries) < engine.tries:
            tries.append(world.process.now())
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    # The clock advances by itself, so short pauses are as long as a step.
    long = [pause for pause in pauses if pause > 100]
    assert pauses[0] < 30
    assert all(later > 1.4 * earlier for earlier, later in pairwise(long[:3]))
    assert rebuilding.LONGEST_REST_SECONDS <= pauses[-1] < 1.3 * rebuilding.LONGEST_REST_SECONDS


def test_resting_work_keeps_no_processor_busy(world, engine):
    world.fill("bad")
    world.process.drain()
    engine.stubborn[str(_key(world, "bad"))] = EngineBrokenError("broken")
    world.store.indexes.rebuild("bad")
    world.process.drain_until(lambda: engine.tries == 5)
    applier = world.process.applier
    assert (applier.busy_collections(), applier.has_work()) == ([_key(world, "bad")], False)
    eventually(applier.has_work)  # each reading of the clock is later
    world.process.engine_up = False
    assert not applier.has_work()


def test_nothing_is_remembered_of_collections_that_are_gone(world, engine):
    world.fill("short-lived")
    world.process.drain()
    key = _key(world, "short-lived")
    world.store.indexes.check("short-lived")
    world.store.indexes.rebuild("short-lived")
    world.process.drain()
    engine.silent.add("short-lived")
    world.store.indexes.check("short-lived")
    world.process.drain(rounds=5)
    assert _remembering(world.process.applier, key)
    engine.silent.clear()
    world.store.delete_collection("short-lived")
    world.process.drain()
    assert _remembering(world.process.applier, key) == []


def _remembering(applier, key):
    """Return the attributes of the parts that look after indexes which still have a collection's key."""
    parts = [applier, applier._rebuilds, applier._checkups]
    parts += [each for part in parts for each in vars(part).values() if isinstance(each, Rests)]
    return [
        f"{type(part).__name__}.{name}"
        for part in parts
        for name, value in vars(part).items()
        if isinstance(value, Collection) and not isinstance(value, str) and key in value
    ]


@pytest.mark.slow
def test_several_rebuilds_take_turns(world, engine):
    for name in ("large", "small"):
        world.fill(name, count=1_600 if name == "large" else 3)
    for name in ("large", "small"):
        world.store.indexes.rebuild(name)
    ended = []
    for _ in range(60):
        world.process.drain(rounds=1)
        ended += [
            name for name in ("large", "small") if world.store.indexes.of(name).report.rebuilds and name not in ended
        ]
    assert ended == ["small", "large"]


@pytest.mark.slow
def test_with_more_collections_than_a_round_has_time_for_the_last_ones_are_looked_at_too(world, engine):
    names = [f"c{number:03}" for number in range(MANY)]
    _create(world, names)
    for name in names:
        add(name, ("d", {}, 1)).run(world.store)
    world.process.drain()
    world.process.restarts_asked += 1
    engine.counted.clear()
    # A step checks one index or measures its recall; some steps use up a round's time.
    for _ in range(4 * MANY):
        world.process.drain(rounds=1)
    assert _are_ready(world, names)
    assert set(engine.counted) == set(names)


def test_one_call_tells_of_all_collections_that_never_had_a_document(world, engine):
    names = [f"c{number:03}" for number in range(MANY)]
    _create(world, [*names, "lost"])
    world.fill("full")
    world.fill("emptied")
    world.store.delete_documents("emptied", OPTIONS, ids=["d0", "d1", "d2"])
    world.process.drain()
    engine.delete_collection("lost")
    world.process.restarts_asked += 1
    engine.counted.clear()
    world.names.clear()
    world.process.drain(rounds=1)
    assert _are_ready(world, names)
    report = world.store.indexes.of("c000").report
    assert (report.fault, report.documents_held, report.checked_at_seconds is None) == (None, 0, False)
    world.process.drain_until(lambda: _are_ready(world, ["lost", "full", "emptied"]))
    assert world.names.count("unused_collections") == 1
    assert not set(engine.counted) & set(names)
    assert {"full", "emptied"} <= set(engine.counted)
    assert world.store.indexes.of("lost").report.rebuilds == 1
    world.check()


def test_an_empty_collection_for_which_a_write_waits_is_looked_at_when_it_is_applied(world, engine):
    world.store.create_collection("docs", {}, "cosine", OPTIONS)
    world.process.drain()
    rounds = world.process.applier._checkups
    rounds.trust_nothing()
    world.process.engine_up = False
    add("docs", ("d", {}, 1)).run(world.store)
    world.store.delete_documents("docs", OPTIONS, ids=["d"])
    rounds._begin_round()
    assert world.state("docs") == "pending"
    world.process.engine_up = True
    world.process.drain_until(lambda: world.state("docs") == "ready")
    world.check()


def test_a_round_has_a_few_of_those_that_are_trusted_and_rounds_together_have_all(world, monkeypatch):
    names = [f"c{number:03}" for number in range(10)]
    _create(world, names)
    world.process.drain_until(lambda: _are_ready(world, names))
    monkeypatch.setattr(checkups, "TRUSTED_PER_ROUND", 4)
    rounds = world.process.applier._checkups
    found = []
    for at in range(3):
        rounds._begin_round()
        found.append(list(rounds._queue))

        def looked_at(transaction, keys=tuple(rounds._queue), at=at):
            for key in keys:
                reports.write(transaction, key, checked_at_seconds=world.process.now() + 1 + at)

        world.process.catalog.commit(looked_at)
    assert [len(each) for each in found] == [4, 4, 4]
    assert len({key for each in found for key in each}) == 10
    rounds.trust_nothing()
    _looks_at_each(world)
    rounds._begin_round()
    assert len(rounds._queue) == 10


def test_unchecked_indexes_come_before_those_checked_longest_ago(world, engine):
    names = [f"c{number:03}" for number in range(6)]
    _create(world, names)
    world.process.drain()
    with world.process.catalog.read() as transaction:
        keys = {each.name: each.key for each in all_collections(transaction)}

    def looked_at(transaction):
        for age, name in enumerate(["c004", "c001", "c005", "c000", "c002"]):
            reports.write(transaction, keys[name], checked_at_seconds=age + 1)
        transaction.run("UPDATE collections SET index_state = 'pending' WHERE name IN ('c002', 'c003', 'c005')")

    world.process.catalog.commit(looked_at)
    rounds = world.process.applier._checkups
    _looks_at_each(world)
    rounds._begin_round()
    in_order = {key: name for name, key in keys.items()}
    assert [in_order[key] for key in rounds._queue] == ["c003", "c005", "c002", "c004", "c001", "c000"]


@pytest.fixture
def now():
    """The seconds of the clock, which stands still."""
    return [1_000.0]


@pytest.fixture
def timed(tmp_path, engine, now):
    world = World(tmp_path, engine, clock=lambda: now[0])
    yield world
    world.process.close()


def test_an_index_that_gave_no_answer_is_looked_at_again_as_soon_as_its_rest_is_over(timed, engine, now):
    world = timed
    for name in ("innocent", "other"):
        world.fill(name)
    engine.silent.add("innocent")
    world.process.restarts_asked += 1
    world.process.drain()
    engine.silent.clear()
    # Another run of the engine begins a round while it rests.
    world.process.restarts_asked += 1
    world.process.drain()
    assert (world.state("innocent"), world.state("other")) == ("pending", "ready")
    now[0] += checkups.FIRST_REST_SECONDS
    world.process.drain()
    assert world.state("innocent") == "ready"


def test_a_rebuild_that_ends_the_engine_has_no_other_index_rest(timed, engine):
    world = timed
    for name in ("bad", "other"):
        world.fill(name)

    def end_with_the_rebuild(name):
        if name == "create_collection":
            world.process.engine_up, engine.away = False, True
            raise EngineUnavailableError("gone")

    world.store.indexes.rebuild("bad")
    world.store.indexes.check("other")
    world.process.engine.before = end_with_the_rebuild
    world.process.drain()
    world.process.engine.before = lambda name: None
    world.process.engine_up, engine.away = True, False
    world.process.restarts_asked += 1
    world.process.drain()
    assert (world.state("bad"), world.state("other")) == ("rebuilding", "ready")


def test_an_engine_that_is_away_as_a_whole_is_no_single_indexs_fault(world, engine):
    for name in ("one", "two"):
        world.fill(name)
    engine.away = True
    world.store.indexes.rebuild("one")
    world.store.indexes.check("two")
    for _ in range(100):
        world.process.drain(rounds=1)
    asked = world.process.now()
    engine.away = False
    world.process.drain_until(lambda: _are_ready(world, ["one", "two"]))
    assert world.process.now() - asked < 120
    assert world.store.indexes.of("one").report.rebuilds == 1
