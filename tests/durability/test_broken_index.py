"""Index files that were damaged while the service was down are rebuilt from the catalogue."""

import os
import random
import shutil
import signal
import sqlite3
from contextlib import closing

from tests.durability.workload import (
    BruteForce,
    ask,
    assert_engine_equals_catalogue,
    create,
    documents,
    healed,
    nearest,
)
from tests.support.live import eventually
from wrapper.engine.keeper.index_files import SPARE_BYTES

DOCUMENTS = 1_100
VECTOR_SEGMENT = """
    SELECT segments.id FROM segments JOIN collections ON collections.id = segments.collection
    WHERE collections.name = ? AND segments.scope = 'VECTOR'
"""


def _deleted(segment):
    shutil.rmtree(segment)


def _torn(segment):
    for file in segment.iterdir():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _labels_torn(segment):
    (labels,) = segment.glob("*.pickle")
    labels.write_bytes(labels.read_bytes()[:-100])


def _rubbish(segment):
    generator = random.Random(7)
    for file in segment.iterdir():
        file.write_bytes(generator.randbytes(file.stat().st_size))


def _vectors_shifted(segment):
    """Give every document its neighbour's vector, which Chroma cannot notice."""
    vectors = segment / "data_level0.bin"
    content = vectors.read_bytes()
    vectors.write_bytes(content[4096:] + content[:4096])


DAMAGES = {
    "deleted": _deleted,
    "torn": _torn,
    "labels-torn": _labels_torn,
    "rubbish": _rubbish,
    "vectors-shifted": _vectors_shifted,
}


def test_damaged_indexes_are_rebuilt_and_queries_are_right_all_the_while(serve):
    service = serve()
    given = {name: documents(DOCUMENTS, seed=number) for number, name in enumerate([*DAMAGES, "untouched"])}
    for name, batch in given.items():
        create(service, name, batch)
    assert service.stop() == 0
    chroma, damaged = service.data_dir / "chroma", []
    with closing(sqlite3.connect(chroma / "chroma.sqlite3")) as database:
        for name, damage in DAMAGES.items():
            (segment,) = database.execute(VECTOR_SEGMENT, (name,)).fetchone()
            damage(chroma / segment)
            damaged.append(chroma / segment)

    truth = {name: BruteForce(batch) for name, batch in given.items()}
    again = serve()
    plans = {name: [] for name in given}

    def all_indexed():
        for name, batch in given.items():
            vector = batch[len(plans[name]) * 7 % DOCUMENTS]["embedding"]
            found, plan = nearest(again, name, vector, 5)
            assert found == truth[name].nearest(vector, 5), (name, plan)
            plans[name].append(plan)
        return all(plan[-1] == "index" for plan in plans.values())

    eventually(all_indexed, complaint=lambda: f"{plans}\n{again.tail()}")
    healed(again)
    for name in given:
        assert_engine_equals_catalogue(again, name)
    rebuilt = again.log.read_text().count("index rebuilt")
    assert rebuilt == len(DAMAGES)
    # The engine leaves the damaged files behind; its next start removes them.
    os.kill(again.engine_pid, signal.SIGKILL)
    healed(again)
    assert not [segment for segment in damaged if segment.exists()]


def test_a_runaway_index_file_is_stopped_and_the_index_rebuilt(serve):
    service = serve()
    given = documents(DOCUMENTS, seed=1)
    create(service, "running", given)
    engine = service.engine_pid
    (links,) = (service.data_dir / "chroma").glob("*/link_lists.bin")
    sound = links.stat().st_size
    with links.open("r+b") as file:
        file.truncate(SPARE_BYTES + 2 * (links.parent / "data_level0.bin").stat().st_size)
    eventually(lambda: service.engine_pid not in (None, engine), complaint=service.tail)
    assert "index files run away" in (service.data_dir / "engine.log").read_text()
    eventually(lambda: "index rebuilt" in service.log.read_text(), complaint=service.tail)
    healed(service)
    assert_engine_equals_catalogue(service, "running")
    truth = BruteForce(given)
    for each in given[::50]:
        assert nearest(service, "running", each["embedding"], 5) == (truth.nearest(each["embedding"], 5), "index")
    assert all(links.stat().st_size <= 2 * sound for links in (service.data_dir / "chroma").glob("*/link_lists.bin"))


def test_a_missing_chroma_directory_is_rebuilt(serve):
    service = serve()
    given = {name: documents(number, seed=number) for name, number in (("many", DOCUMENTS), ("few", 7), ("none", 0))}
    for name, batch in given.items():
        create(service, name, batch, metadata={"title": name}, metric="l2")
    assert service.stop() == 0
    shutil.rmtree(service.data_dir / "chroma")
    again = serve()
    for name, batch in given.items():
        eventually(
            lambda name=name: ask(again, "GET", f"/collections/{name}/index")["state"] == "ready", complaint=again.tail
        )
        assert ask(again, "GET", f"/collections/{name}")["count"] == len(batch)
    assert nearest(again, "many", given["many"][9]["embedding"]) == ([given["many"][9]["id"]], "index")
    healed(again)
    for name in given:
        assert_engine_equals_catalogue(again, name)
