"""An adoption killed at any step loses nothing and stores nothing twice, and a deleted collection never comes back.

A usual run kills at every seventh step, `make soak` at each.
"""

import shutil
from itertools import count

import pytest

from tests.properties.consistency import catalog_state, check_engine, check_tables
from tests.properties.fake_engine import FakeEngine
from tests.properties.processes import STEP, Crash, Process, Steps
from tests.properties.stories import add
from tests.support.worlds import OPTIONS
from tests.wrapper.indexing.foreign import ids_of, make_foreign, reports, step_until

SECOND_CRASHES = (None, 3, 8)


@pytest.mark.slow
def test_a_crash_at_any_step_loses_nothing_and_stores_nothing_twice(engine, tmp_path):
    make_foreign(engine, number=60)
    for crash_at in count(0, STEP):
        directory = tmp_path / str(crash_at)
        directory.mkdir()
        process = Process(directory, engine, Steps(crash_at))
        try:
            process.lead()
            process.drain()
            break
        except Crash:
            pass
        finally:
            process.close()
        check_tables(process.path)
        process = Process(directory, engine)
        process.lead()
        process.drain()
        assert ids_of(process) == [f"d{n}" for n in range(60)]
        check_tables(process.path)
        check_engine(process.path, engine)
        process.close()
    assert crash_at > 20


def _life(process, engine):
    """Do everything that moves a collection about in the engine."""
    process.store.create_collection("docs", {"topic": "x"}, "l2", OPTIONS)
    process.drain()
    add("docs", ("d1", {}, 1), ("d2", {}, 2)).run(process.store)
    process.drain()
    process.store.empty_collection("docs", OPTIONS)
    process.drain()
    add("docs", ("d3", {}, 3), ("d4", {}, 4)).run(process.store)
    process.drain()
    key = process.store.collection("docs").key
    process.applier._rebuilds.begin(key, "a test")
    process.drain()


@pytest.mark.slow
def test_a_deleted_collection_never_comes_back(tmp_path):
    """The process is killed at any step of the collection's life, which is then deleted, and killed again during the
    removal."""
    empty = tmp_path / "empty"
    empty.mkdir()
    Process(empty, FakeEngine()).close()
    for first in count(0, STEP):
        for second in SECOND_CRASHES:
            directory, engine = tmp_path / f"{first}-{second}", FakeEngine()
            shutil.copytree(empty, directory)
            process = Process(directory, engine, Steps(first))
            try:
                process.lead()
                _life(process, engine)
                lived = True
            except Crash:
                lived = False
            finally:
                process.close()
            process = Process(directory, engine, None if second is None else Steps(second))
            try:
                if process.store.collections():
                    process.store.delete_collection("docs", OPTIONS)
                process.lead()
                process.drain()
            except Crash:
                pass
            finally:
                process.close()
            process = Process(directory, engine)
            for each in process.store.collections():
                process.store.delete_collection(each.name, OPTIONS)
            process.lead()
            process.drain()
            process.drain()
            assert catalog_state(process.path) == {}, (first, second)
            assert engine.list_collections() == [], (first, second)
            process.close()
            shutil.rmtree(directory)
        if lived:
            break
    assert first > 60


def test_a_collection_deleted_during_its_adoption_is_gone(engine, start):
    make_foreign(engine, number=200)
    process = start()
    step_until(process, lambda: reports(process) and reports(process)[0].documents > 0)
    process.store.delete_collection("foreign", OPTIONS)
    process.applier.maintain()
    assert process.store.collections() == []
    process.drain()
    process.lead_again()
    process.drain()
    assert (process.store.collections(), engine.list_collections(), reports(process)) == ([], [], [])
