"""What the engine's records have: everything, or with `vectors` nothing but ids and vectors."""

import numpy as np
import pytest

from schemas.storage.engine_records import FULL, VECTORS
from tests.properties.fake_engine import FakeEngine
from tests.properties.processes import STEP, Crash, Process, Steps
from tests.properties.stories import add
from tests.support.worlds import OPTIONS, World
from tests.wrapper.stores.reembedded import NEW


@pytest.fixture
def open_world(tmp_path):
    opened = []

    def open_world(**options):
        for before in opened:
            before.process.close()
        world = World(tmp_path, opened[-1].engine if opened else None, **options)
        opened.append(world)
        return world

    yield open_world
    opened[-1].process.close()


def held(world, name="docs"):
    """Return what the engine has beside ids and vectors: {id: (text, metadata)}."""
    found = world.engine.get(world.engine.get_collection(name).id)
    return dict(zip(found.ids, zip(found.texts, found.metadatas, strict=True), strict=True))


def rebuild(world, records=None, name="docs"):
    world.store.indexes.rebuild(name, records=records)
    world.process.drain()


def finds_itself(world, number, name="docs"):
    found = world.process.planner.query(name, world.vector(number), top_k=1)
    return found.plan, found.matches[0].document.id, found.matches[0].document.text != ""


LEAN = (None, {})


def test_the_engine_has_neither_texts_nor_metadata_of_a_collection_of_vectors(open_world):
    world = open_world(records=lambda: VECTORS)
    world.fill()
    assert world.store.indexes.of("docs").collection.engine_records == VECTORS
    assert held(world) == {f"d{number}": LEAN for number in range(3)}
    world.store.add_documents("docs", world.batch("d0", "new"), OPTIONS)
    world.store.delete_documents("docs", ids=["d1"], options=OPTIONS)
    world.process.drain()
    assert held(world) == dict.fromkeys(("d0", "d2", "new"), LEAN)
    assert finds_itself(world, 2) == ("index", "d2", True)
    world.store.empty_collection("docs", OPTIONS)
    world.store.add_documents("docs", world.batch("later"), OPTIONS)
    world.process.drain()
    assert held(world) == {"later": LEAN}


def test_a_collection_keeps_its_records_when_the_setting_changes(open_world):
    open_world().fill()
    world = open_world(records=lambda: VECTORS)
    world.store.add_documents("docs", world.batch("d0", "new"), OPTIONS)
    world.fill("other")
    rebuild(world)
    assert all(text for text, _ in held(world).values())
    assert held(world, "other") == dict.fromkeys(("d0", "d1", "d2"), LEAN)


def test_a_rebuild_changes_the_records_and_later_writes_follow_it(open_world):
    cleaned = []
    world = open_world(clean=lambda: cleaned.append(held(world)))
    world.fill()
    full = held(world)
    rebuild(world, VECTORS)
    assert held(world) == dict.fromkeys(full, LEAN)
    assert cleaned == [held(world)], "it is cleaned once nothing of the texts is in use"
    world.store.add_documents("docs", world.batch("d0"), OPTIONS)
    rebuild(world)
    assert held(world) == dict.fromkeys(full, LEAN)
    rebuild(world, FULL)
    assert held(world) == {**full, "d0": ("text of d0", {})}
    assert len(cleaned) == 2


def test_an_index_that_is_being_made_keeps_to_one_kind_of_records(open_world):
    kinds = [FULL]
    world = open_world(records=lambda: kinds[-1])
    world.process.engine_up = False
    world.store.create_collection("docs", {}, "cosine", OPTIONS)
    key = world.store.collection("docs").key
    add("docs", *((f"d{n}", {}, n) for n in range(3))).run(world.store)
    world.process.applier._rebuilds.begin(key, "it was never made")
    kinds.append(VECTORS)
    world.process.engine_up = True
    world.process.drain()
    assert all(text for text, _ in held(world).values())
    assert world.store.indexes.of("docs").collection.engine_records == FULL


def test_a_copy_has_the_records_of_its_original(open_world):
    world = open_world()
    world.fill()
    rebuild(world, VECTORS)
    world.store.copying.copy("docs", "copy", OPTIONS)
    world.process.drain()
    assert held(world, "copy") == dict.fromkeys(("d0", "d1", "d2"), LEAN)


def texts_in_engine(world):
    """Return the texts that the engine has of anything."""
    every = [world.engine.get(each.id).texts for each in world.engine.list_collections()]
    return {text for texts in every for text in texts if text}


def switch(world):
    """Give all documents other vectors."""
    work = world.store.reembeddings
    while True:
        for name in work.under_way():
            part = work.next_part(name)
            if part is not None and work.store(
                part, np.ones((len(part.documents), 2), "<f4") if part.documents else None
            ):
                world.process.drain()
                return


@pytest.mark.parametrize(
    "asked", ["before", "while it runs", "while the engine is away", "after", "after switching back"]
)
def test_what_records_have_outlives_a_reembedding(open_world, asked):
    world = open_world()
    world.fill()
    work = world.store.reembeddings
    if asked == "before":
        rebuild(world, VECTORS)
    work.begin("docs", NEW)
    if asked == "while it runs":
        world.process.drain()
        rebuild(world, VECTORS)
    if asked == "while the engine is away":
        world.store.indexes.rebuild("docs", records=VECTORS)
    switch(world)
    if asked.startswith("after"):
        assert texts_in_engine(world)
    if asked == "after switching back":
        work.go_back("docs")
    if asked.startswith("after"):
        rebuild(world, VECTORS)
    world.process.drain()
    assert world.store.indexes.of("docs").collection.engine_records == VECTORS
    assert texts_in_engine(world) == set()
    if asked != "after switching back":
        work.go_back("docs")
        world.process.drain()
        assert world.store.indexes.of("docs").collection.engine_records == VECTORS
        assert texts_in_engine(world) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(FULL, VECTORS), (VECTORS, FULL)])
def test_whenever_the_service_dies_while_records_change_they_have_all_changed_in_the_end(tmp_path, before, after):
    steps = 0
    while True:
        engine = FakeEngine()
        cleaned = []

        def clean(engine=engine, cleaned=cleaned):
            texts = [engine.get(each.id).texts for each in engine.list_collections()]
            cleaned.append(not any(text for some in texts for text in some))

        directory = tmp_path / str(steps)
        directory.mkdir()
        world = World(directory, engine, records=lambda: before)
        world.fill()
        world.process.close()
        process = Process(directory, engine, Steps(steps), records=lambda: before, clean=clean)
        try:
            process.lead()
            process.store.indexes.rebuild("docs", records=after)
            process.drain()
            is_dead = False
        except Crash:
            is_dead = True
        process.close()
        last = World(directory, engine, records=lambda: before, clean=clean)
        if is_dead and last.store.indexes.of("docs").collection.engine_records == before:
            rebuild(last, after)  # it had not been acknowledged, or has not begun
        last.store.add_documents("docs", last.batch("d0", "new"), OPTIONS)
        last.process.drain()
        kinds = {text is None and not metadata for text, metadata in held(last).values()}
        assert kinds == {after == VECTORS}
        assert set(held(last)) == {"d0", "d1", "d2", "new"}
        assert any(cleaned) == (after == VECTORS), "cleaning is asked for when no text is in use"
        last.process.close()
        if not is_dead:
            break
        steps += STEP
    assert steps > 15
