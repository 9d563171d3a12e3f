"""The applier's work on outbox entries, and on an engine that lost, broke, blocked or refused something."""

import numpy as np
import pytest

from tests.properties.stories import add
from tests.support.worlds import OPTIONS
from wrapper.catalog import identity, reads
from wrapper.catalog.index_state import reports
from wrapper.catalog.rows import find_collection
from wrapper.engine.client import SEARCH_WIDTHS
from wrapper.engine.failures import EngineBrokenError, EngineRefusedError, EngineUnavailableError
from wrapper.indexing.breaking_documents import Part
from wrapper.indexing.engine_collections import DOCUMENTS_PER_CALL, rebuild_name, trial_name


@pytest.mark.slow
def test_a_lost_engine_collection_is_rebuilt_and_scanned_until_then(world):
    world.fill(count=DOCUMENTS_PER_CALL + 7)
    lost = world.engine.get_collection("docs").id
    world.engine.delete_collection("docs")
    add("docs", ("new", {}, 1)).run(world.store)
    world.process.drain(rounds=1)
    assert world.state() == "rebuilding"
    assert world.plan() == "scan"
    world.process.drain()
    assert world.plan() == "index"
    assert world.engine.get_collection("docs").id != lost
    world.check()


FAULTS = {
    "it lost the collection": lambda world: world.engine.delete_collection("docs"),
    "it lost a document": lambda world: world.engine.delete(world.engine.get_collection("docs").id, ["d1"]),
    "it finds nothing": lambda world: setattr(world.process.engine, "query", lambda *_, **__: [[]]),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_an_index_is_noticed_without_a_write_when_the_engine_starts_again(world, fault):
    world.fill()
    before = world.engine.get_collection("docs").id
    fault(world)
    world.process.restarts_asked += 1
    world.process.drain(rounds=2)
    vars(world.process.engine).pop("query", None)
    world.process.drain()
    assert world.engine.get_collection("docs").id != before
    assert set(world.records()) == {"d0", "d1", "d2"}
    world.check()


@pytest.mark.parametrize(
    ("failure", "times", "is_rebuilt"),
    [(EngineBrokenError("broken"), 8, True), (EngineUnavailableError("away"), 2, False)],
)
def test_an_engine_that_fails_is_started_again_and_then_a_broken_index_is_rebuilt(world, failure, times, is_rebuilt):
    world.fill()
    before, asked = world.engine.get_collection("docs").id, world.process.restarts_asked
    world.failing["upsert"] = [failure] * times
    add("docs", ("new", {}, 1)).run(world.store)
    world.process.drain()
    assert world.process.restarts_asked > asked
    assert (world.engine.get_collection("docs").id != before) is is_rebuilt
    assert "new" in world.records()
    world.check()


def test_an_engine_that_is_away_is_not_started_again_for_it(world):
    world.fill()
    world.process.engine_up = False
    asked = world.process.restarts_asked
    add("docs", ("new", {}, 1)).run(world.store)
    world.process.drain(rounds=5)
    assert world.process.restarts_asked == asked
    assert world.process.lag() == 1
    assert world.plan() == "scan"
    world.process.engine_up = True
    world.process.drain()
    world.check()


@pytest.mark.parametrize("texts", [[], ["kept"]])
def test_somebodys_collection_in_the_way_is_kept_under_another_name(world, texts):
    """Whatever looks like ours: it may be empty, and searched as widely as ours are."""
    width = SEARCH_WIDTHS[0]
    theirs = world.engine.create_collection("docs", metric="l2", metadata={"whose": "theirs"}, search_width=width)
    if texts:
        world.engine.upsert(theirs, ["x"], np.ones((1, 2), dtype="<f4"), texts, [{}])
    world.fill()
    [spared] = [each for each in world.engine.list_collections() if each.id == theirs]
    assert spared.name.startswith("docs-replaced-")
    assert spared.metadata == {"whose": "theirs"}
    assert world.engine.get(theirs).texts == texts
    assert set(world.records()) == {"d0", "d1", "d2"}


def test_an_empty_collection_in_the_way_is_a_leftover(world):
    with world.process.catalog.read() as transaction:
        ours = identity.find(transaction)
    world.engine.create_collection("docs", metric="l2", owner=ours)
    world.fill()
    world.check()
    assert [(each.name, each.owner) for each in world.engine.list_collections()] == [("docs", ours)]


def test_somebodys_collections_with_our_names_are_kept_by_rebuilds_and_trials(world):
    world.fill()
    theirs = {}
    with world.process.catalog.read() as transaction:
        collection = find_collection(transaction, "docs")
    world.engine.delete_collection("docs")
    for name in (trial_name(collection.key), rebuild_name(collection.key, collection.engine_id), "docs"):
        theirs[name] = world.engine.create_collection(name, metric="l2")
        world.engine.upsert(theirs[name], ["x"], np.ones((1, 2), dtype="<f4"), ["kept"], [{}])
    sifter = world.process.applier._rebuilds._sifter
    with world.process.catalog.read() as transaction:
        documents = list(reads.by_ids(transaction, collection, ["d0"], with_embeddings=True).values())
    assert sifter.fault(collection, Part([documents[0].position]), documents) is None
    world.process.applier._rebuilds.begin(collection.key, "a test")
    world.process.drain()
    assert world.state() == "ready"
    assert [world.engine.get(each).texts for each in theirs.values()] == [["kept"]] * 3
    assert [each.name for each in world.store.collections()] == ["docs"]


@pytest.mark.parametrize("refused", ["d0", "d3", "d6"])
def test_a_refused_document_is_left_out_and_the_rest_is_stored(world, refused):
    world.fill("docs", count=1)
    upsert = world.engine.upsert

    def refuse(engine_id, ids, *args, **kwargs):
        if refused in ids:
            raise EngineRefusedError("not this one")
        upsert(engine_id, ids, *args, **kwargs)

    world.engine.upsert = refuse
    add("docs", *((f"d{n}", {"n": n, "again": 1}, n) for n in range(7))).run(world.store)
    world.process.drain()
    assert world.process.lag() == 0
    stored = {each for each, metadata in world.records().items() if "again" in metadata}
    assert stored == {f"d{n}" for n in range(7)} - {refused}
    with world.process.catalog.read() as transaction:
        assert find_collection(transaction, "docs").count == 7


def test_refused_collection_metadata_holds_up_no_document(world):
    world.fill()
    world.failing["set_collection_metadata"] = [EngineRefusedError("no")]
    world.store.change_collection_metadata("docs", {"new": 1}, OPTIONS, merge=False)
    add("docs", ("new", {}, 1)).run(world.store)
    world.process.drain()
    assert world.process.lag() == 0
    assert "new" in world.records()
    world.store.change_collection_metadata("docs", {"list": [1, None]}, OPTIONS, merge=False)
    world.process.drain()
    assert world.engine.get_collection("docs").metadata == {"list": [1, None]}
    world.check()


def test_applying_entries_twice_changes_nothing(world):
    world.fill()
    add("docs", ("d1", {"new": 1}, 1)).run(world.store)
    world.store.delete_documents("docs", OPTIONS, ids=["d0"])
    with world.process.catalog.read() as transaction:
        entries = transaction.rows("SELECT * FROM outbox")
    world.process.drain()
    world.process.catalog.commit(
        lambda transaction: transaction.run_many("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", entries)
    )
    world.process.lead_again()
    world.process.drain()
    world.check()


def _report(world, name="docs"):
    with world.process.catalog.read() as transaction:
        return reports.find(transaction, find_collection(transaction, name).key)


def test_an_index_that_is_larger_than_its_documents_explain_is_rebuilt_once(world):
    world.fill()
    bloated = world.engine.get_collection("docs").id
    world.process.index_bytes[bloated] = 1 << 40
    world.store.indexes.check("docs")
    world.process.drain()
    assert world.engine.get_collection("docs").id != bloated
    assert _report(world).rebuilds == 1
    world.process.index_bytes[world.engine.get_collection("docs").id] = 1 << 40
    world.store.indexes.check("docs")
    world.process.drain()
    assert _report(world).rebuilds == 1
    assert "its documents explain" in _report(world).fault
    assert world.state() == "ready"
    world.check()


def test_a_rebuild_that_is_asked_for_comes_after_the_writes_before_it(world):
    world.fill()
    before = world.engine.get_collection("docs").id
    add("docs", ("new", {}, 1)).run(world.store)
    world.store.indexes.rebuild("docs")
    add("docs", ("newer", {}, 1)).run(world.store)
    world.process.drain()
    assert world.engine.get_collection("docs").id != before
    assert set(world.records()) == {"d0", "d1", "d2", "new", "newer"}
    assert (_report(world).rebuilds, _report(world).rebuild_reason) == (1, None)
    world.check()


def _miss_the_nearest(world):
    query = world.engine.query
    world.process.engine.query = lambda engine_id, vectors, number: [
        found[-15:] for found in query(engine_id, vectors, 50)
    ]


def test_the_recall_of_a_collection_that_has_doubled_is_measured_again_soon(world):
    world.fill(count=20)
    world.store.indexes.check("docs")
    world.process.drain()
    assert _report(world).recall_at_10 == 1.0
    _miss_the_nearest(world)
    add("docs", *[(f"new-{number}", {}, number) for number in range(20)]).run(world.store)
    for _ in range(40):  # far less than the time after which any collection is measured again
        world.process.drain()
    assert _report(world).recall_at_10 < 0.5


def test_the_report_of_an_index_goes_with_its_collection(world):
    world.fill()
    world.store.indexes.check("docs")
    world.process.drain()
    assert _report(world).checked_at_seconds is not None
    world.store.delete_collection("docs", OPTIONS)
    world.store.create_collection("docs", {}, "l2", OPTIONS)
    assert _report(world) == reports.NOTHING_KNOWN
