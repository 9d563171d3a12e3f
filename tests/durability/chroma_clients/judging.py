"""What a client of Chroma finds after a kill, compared with what was acknowledged."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.durability.chroma_clients.writers import SHARED, Record, State, Writer
from tests.durability.workload import MISSED_BY_INDEX

PAGE = 2_000
ASKED = 40
FEW = 3


def found_by(client: Any) -> State:
    """Return all collections and records that a client can get, by id and filter and without, and complain by
    AssertionError when these ways disagree."""
    there: State = {}
    for collection in client.list_collections():
        there[collection.name, None] = str(collection.id)
        count, read = collection.count(), 0
        while read < count:
            page = collection.get(include=["documents", "metadatas", "embeddings"], limit=PAGE, offset=read)
            for place, record_id in enumerate(page["ids"]):
                embedding = np.asarray(page["embeddings"][place], dtype=np.float32).tobytes()
                record = Record(page["documents"][place], page["metadatas"][place], embedding)
                there[collection.name, record_id] = record
            assert page["ids"], f"{collection.name} counts {count} records, and gives {read}"
            read += len(page["ids"])
        assert read == count, f"{collection.name} counts {count} records, and gives {read}"
    return there


def complaints_about(client: Any, there: State, writers: Sequence[Writer]) -> list[str]:
    """Return what is wrong with what a client found, and settle what was not answered."""
    complaints = [complaint for writer in writers if (complaint := writer.settle(_with_new(there, writer)))]
    told = {key: value for writer in writers for key, value in writer.state.items()}
    told[SHARED, None] = there.get((SHARED, None))
    lost = [key for key in told if key not in there]
    back = [key for key in there if key not in told]
    other = [key for key in told if key in there and there[key] != told[key]]
    for keys, what in (
        (lost, "acknowledged, and lost"),
        (back, "deleted or never told, and there"),
        (other, "not as told"),
    ):
        if keys:
            complaints.append(f"{len(keys)} {what}, such as {keys[:FEW]}")
    shared = client.get_collection(SHARED, embedding_function=None)
    for writer in writers:
        complaints += _asked(shared, writer)
    return complaints


def _with_new(there: State, writer: Writer) -> State:
    """Return what is there as far as an unanswered request told it: nobody was told the UUID of a new collection."""
    if writer.unanswered is None or writer.unanswered.what != "create":
        return there
    (key,) = writer.unanswered.after
    if key not in there:
        return there
    writer.unanswered = writer.unanswered._replace(after={key: there[key]})
    return there


def _asked(shared: Any, writer: Writer) -> list[str]:
    """Ask for a writer's records by id, by filter and by vector."""
    mine = {key[1]: value for key, value in writer.state.items() if key[0] == SHARED}
    found = set(shared.get(where={"writer": writer.number}, include=[])["ids"])
    complaints = [] if found == mine.keys() else [f"{len(found ^ mine.keys())} records of a filter differ"]
    some = sorted(mine)[:: max(1, len(mine) // ASKED)]
    if not some:
        return complaints
    by_id = shared.get(ids=some, include=["documents"])
    if dict(zip(by_id["ids"], by_id["documents"], strict=True)) != {each: mine[each].document for each in some}:
        complaints.append("records by id differ")
    vectors = [np.frombuffer(mine[each].embedding, dtype=np.float32) for each in some]
    nearest = shared.query(query_embeddings=vectors, n_results=1, include=["distances"])
    missed = [
        each
        for each, ids, distances in zip(some, nearest["ids"], nearest["distances"], strict=True)
        if ids != [each] or distances[0] > 1e-6
    ]
    if len(missed) > max(1, MISSED_BY_INDEX * len(some)):
        complaints.append(
            f"{len(missed)} of {len(some)} records are not found by their vectors, such as {missed[:FEW]}"
        )
    gone = [np.frombuffer(each, dtype=np.float32) for each in writer.gone[-ASKED:]]
    if gone:
        answer = shared.query(query_embeddings=gone, n_results=1, include=["distances"])
        near = [distances[0] for distances in answer["distances"] if distances and distances[0] < 1e-6]
        if near:
            complaints.append(f"{len(near)} of {len(gone)} deleted records are found by their vectors")
    return complaints
