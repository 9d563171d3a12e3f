"""Rebuilds, looks at indexes and writes take turns: what fails rests, longer each time, and holds up nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.properties.stories import add
from tests.support.worlds import OPTIONS, BrittleEngine, World
from wrapper import checkups, rebuilding
from wrapper.catalog import reports
from wrapper.catalog.rows import all_collections
from wrapper.engine.errors import EngineBrokenError, EngineConflictError, EngineUnavailableError

MANY = 60


class StubbornEngine(BrittleEngine):
    """One that for some collections never makes what a rebuild needs, or never answers what is asked of them."""

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


@pytest.fixture
def world(tmp_path, engine):
    world = World(tmp_path, engine)
    yield world
    world.process.close()


def _key(world, name):
    with world.process.catalog.read() as transaction:
        return next(each.key for each in all_collections(transaction) if each.name == name)


def _are_ready(world, names):
    with world.process.catalog.read() as transaction:
        return all(each.index_state == "ready" for each in all_collections(transaction) if each.name in names)


@pytest.mark.parametrize(
    "error", [EngineBrokenError("broken"), EngineUnavailableError("no answer"), EngineConflictError("taken")]
)
def test_a_rebuild_that_never_succeeds_holds_up_no_other_index(world, engine, error):
    names = ["bad", "other", "lost", "quiet"]
    for name in names:
        world.fill(name)
    engine.stubborn[str(_key(world, "bad"))] = error
    world.store.rebuild_index("bad")
    world.process.drain(rounds=20)
    tries = engine.tries
    assert tries > 0
    engine.delete_collection("lost")
    world.process.restarts_asked += 1
    add("other", ("new", {}, 7)).run(world.store)
    world.process.drain_until(lambda: _are_ready(world, names[1:]) and not world.store.index("other")["waiting_writes"])
    assert world.state("bad") == "rebuilding"
    assert world.store.index("bad")["standing_still"]["reason"] == error.message
    assert "new" in world.records("other")
    assert set(world.records("lost")) == {"d0", "d1", "d2"}
    engine.stubborn.clear()
    world.process.drain_until(lambda: world.state("bad") == "ready")
    assert world.store.index("bad")["standing_still"] is None


def test_a_rebuild_that_fails_rests_longer_each_time_up_to_an_end(world, engine):
    world.fill("bad")
    engine.stubborn[str(_key(world, "bad"))] = EngineBrokenError("broken")
    world.store.rebuild_index("bad")
    tries = []
    for _ in range(1_500):
        world.process.drain(rounds=1)
        if len(tries) < engine.tries:
            tries.append(world.process.now())
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    # The clock moves on by itself: short pauses are as long as a step.
    long = [pause for pause in pauses if pause > 100]
    assert pauses[0] < 30
    assert all(later > 1.4 * earlier for earlier, later in pairwise(long[:3]))
    assert rebuilding.LONGEST_REST_SECONDS <= pauses[-1] < 1.3 * rebuilding.LONGEST_REST_SECONDS


def test_several_rebuilds_take_turns(world, engine):
    for name in ("large", "small"):
        world.fill(name, count=1_600 if name == "large" else 3)
    for name in ("large", "small"):
        world.store.rebuild_index(name)
    ended = []
    for _ in range(60):
        world.process.drain(rounds=1)
        ended += [name for name in ("large", "small") if world.store.index(name)["rebuilds"] and name not in ended]
    assert ended == ["small", "large"]


def test_with_more_collections_than_a_round_has_time_for_the_last_ones_are_looked_at_too(world, engine):
    names = [f"c{number:03}" for number in range(MANY)]
    for name in names:
        world.store.create_collection(name, {}, "cosine", OPTIONS)
        add(name, ("d", {}, 1)).run(world.store)
    world.process.drain()
    world.process.restarts_asked += 1
    engine.counted.clear()
    # A step looks at one, or measures its recall; a round's time is over after some of them.
    for _ in range(4 * MANY):
        world.process.drain(rounds=1)
    assert _are_ready(world, names)
    assert set(engine.counted) == set(names)


def test_a_round_has_a_few_of_those_that_are_trusted_and_rounds_together_have_all(world, monkeypatch):
    names = [f"c{number:03}" for number in range(10)]
    for name in names:
        world.store.create_collection(name, {}, "cosine", OPTIONS)
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
    rounds._begin_round()
    assert len(rounds._queue) == 10


def test_those_nobody_has_looked_at_come_before_those_looked_at_longest_ago(world, engine):
    names = [f"c{number:03}" for number in range(6)]
    for name in names:
        world.store.create_collection(name, {}, "cosine", OPTIONS)
    world.process.drain()
    with world.process.catalog.read() as transaction:
        keys = {each.name: each.key for each in all_collections(transaction)}

    def looked_at(transaction):
        for age, name in enumerate(["c004", "c001", "c005", "c000", "c002"]):
            transaction.run(
                "INSERT INTO index_reports (collection_key, documents_rebuilt, rebuilds, checked_at_seconds) "
                "VALUES (?, 0, 0, ?) ON CONFLICT (collection_key) DO UPDATE SET checked_at_seconds = ?",
                (keys[name], age + 1, age + 1),
            )
        transaction.run("UPDATE collections SET index_state = 'pending' WHERE name IN ('c002', 'c003', 'c005')")

    world.process.catalog.commit(looked_at)
    rounds = world.process.applier._checkups
    rounds._begin_round()
    in_order = {key: name for name, key in keys.items()}
    assert [in_order[key] for key in rounds._queue] == ["c003", "c005", "c002", "c004", "c001", "c000"]


def test_an_index_that_gives_no_answer_holds_up_no_look_at_another(world, engine):
    names = [f"c{number}" for number in range(5)]
    for name in names:
        world.fill(name)
    engine.silent.add("c0")
    world.process.restarts_asked += 1
    world.process.drain(rounds=1)
    world.process.drain_until(lambda: _are_ready(world, names[1:]))
    assert world.state("c0") == "pending"
    engine.silent.clear()
    world.process.drain_until(lambda: _are_ready(world, names))


def test_an_engine_that_is_away_as_a_whole_is_no_single_indexs_fault(world, engine):
    for name in ("one", "two"):
        world.fill(name)
    engine.away = True
    world.store.rebuild_index("one")
    world.store.check_index("two")
    for _ in range(100):
        world.process.drain(rounds=1)
    asked = world.process.now()
    engine.away = False
    world.process.drain_until(lambda: _are_ready(world, ["one", "two"]))
    assert world.process.now() - asked < 120
    assert world.store.index("one")["rebuilds"] == 1
