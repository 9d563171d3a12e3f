"""Clients of Chroma that write until they are cut off, and remember what they were told."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import chromadb.errors
import httpx
import numpy as np

from tests.support.live import chroma_client_at

SHARED = "shared"
DIMENSION = 64
BATCHES = (1, 5, 50, 200)
MOST_RECORDS = 2_500
"""What a writer keeps in the shared collection: beyond it, it deletes more than it adds."""
FEW_COLLECTIONS = 4
CUT_OFF = (httpx.TransportError, ConnectionError)
"""What a client raises whose server is gone."""
NOT_CONNECTED = "Could not connect"
"""What a client says whose server is gone when it is made."""
ABSENT = None


class Record(NamedTuple):
    document: str
    metadata: dict[str, Any]
    embedding: bytes
    """Of float32 values."""


Key = tuple[str, str | None]
"""A collection, and the id of a record in it; without one, it stands for the collection itself, whose value is its UUID."""
State = dict[Key, Any]


class Change(NamedTuple):
    """What a request that was not answered would have changed: keys with their values, `ABSENT` where there is none."""

    what: str
    before: State
    after: State


class Bed:
    """What one thread wants: random choices, and vectors no two of which are equal."""

    def __init__(self, seed: tuple[int, ...]) -> None:
        self.generator = np.random.default_rng(seed)

    def choose(self, given: list[Any], number: int) -> list[Any]:
        places = self.generator.choice(len(given), size=min(number, len(given)), replace=False)
        return [given[place] for place in places]

    def vector(self) -> np.ndarray:
        return self.generator.normal(size=DIMENSION).astype(np.float32)


@dataclass
class Writer:
    """One client that adds, upserts, updates and deletes records of its own in a collection that all writers share, and
    makes, renames and deletes collections of its own.

    `state` is what it was told is so. `unanswered` is the request during which it was cut off, and `refused` holds errors
    of a server that was there.
    """

    number: int
    state: State = field(default_factory=dict)
    gone: list[bytes] = field(default_factory=list)
    unanswered: Change | None = None
    refused: list[str] = field(default_factory=list)
    acknowledged: int = 0
    step: int = 0

    def run(self, url: str, stopping: threading.Event) -> None:
        """Write until the server is gone, or `stopping` is set."""
        bed = Bed((self.number, self.step))
        try:
            with chroma_client_at(url) as client:
                shared = client.get_collection(SHARED, embedding_function=None)
                while not stopping.is_set():
                    self.step += 1
                    self._one(client, shared, bed)
        except CUT_OFF:
            return
        except (chromadb.errors.ChromaError, ValueError) as error:
            if NOT_CONNECTED not in str(error):
                self.refused.append(f"{self.unanswered.what if self.unanswered else 'get'}: {error}")

    def settle(self, there: State) -> str | None:
        """Take over what became of the request that was not answered; return a complaint when it is there in part."""
        change, self.unanswered = self.unanswered, None
        if change is None:
            return None
        found = {key: there.get(key) for key in change.before | change.after}
        for outcome in (change.before, change.after):
            if found == {key: outcome.get(key) for key in found}:
                self._apply(outcome, found)
                return None
        whole = {key: change.after.get(key) for key in found}
        applied = sum(found[key] == whole[key] for key in found)
        self._apply(found, found)
        return f"{change.what}: {applied} of {len(found)} parts of a request are there"

    def _one(self, client: Any, shared: Any, bed: Bed) -> None:
        mine = [record_id for name, record_id in self.state if name == SHARED]
        own = [name for name, record_id in self.state if record_id is None]
        choice = bed.generator.random()
        if len(mine) > MOST_RECORDS:
            self._delete(shared, bed.choose(mine, 200))
        elif choice < 0.5 or len(mine) < 20:
            self._put(shared, "add", self._new_ids(int(bed.generator.choice(BATCHES))), bed)
        elif choice < 0.65:
            self._put(shared, "upsert", [*bed.choose(mine, 4), *self._new_ids(2)], bed)
        elif choice < 0.75:
            self._put(shared, "update", bed.choose(mine, 3), bed)
        elif choice < 0.82:
            self._delete(shared, bed.choose(mine, 3))
        elif choice < 0.88:
            self._delete_where(shared, bed.choose(mine, 1)[0])
        elif choice < 0.94 and len(own) < FEW_COLLECTIONS:
            self._make(client, bed)
        elif own and choice < 0.97:
            self._rename(client, bed.choose(own, 1)[0])
        elif own:
            self._drop(client, bed.choose(own, 1)[0])

    def _new_ids(self, number: int) -> list[str]:
        return [f"w{self.number}-{self.step}-{place}" for place in range(number)]

    def _put(self, collection: Any, how: str, ids: list[str], bed: Bed) -> None:
        vectors = [bed.vector() for _ in ids]
        metadatas = [
            {"writer": self.number, "step": self.step, f"key{self.step % 5}": place} for place in range(len(ids))
        ]
        documents = [f"step {self.step} wrote {record_id}" for record_id in ids]
        before = {(collection.name, each): self.state.get((collection.name, each)) for each in ids}
        after: State = {}
        for place, (key, known) in enumerate(before.items()):
            merged = {**(known.metadata if known else {}), **metadatas[place]}
            after[key] = Record(documents[place], merged, vectors[place].tobytes())
        self._ask(
            Change(how, before, after),
            lambda: getattr(collection, how)(ids=ids, embeddings=vectors, metadatas=metadatas, documents=documents),
        )

    def _delete(self, collection: Any, ids: list[str]) -> None:
        before = {(collection.name, each): self.state[collection.name, each] for each in ids}
        self._ask(Change("delete", before, {}), lambda: collection.delete(ids=ids))

    def _delete_where(self, collection: Any, record_id: str) -> None:
        step = self.state[collection.name, record_id].metadata["step"]
        before = {
            key: value for key, value in self.state.items() if key[0] == SHARED and value.metadata["step"] == step
        }
        where = {"$and": [{"writer": self.number}, {"step": step}]}
        self._ask(Change("delete by filter", before, {}), lambda: collection.delete(where=where))

    def _make(self, client: Any, bed: Bed) -> None:
        name = f"own-{self.number}-{self.step}"
        made = self._ask(
            # The UUID is the server's to choose: only the answer tells it.
            Change("create", {(name, None): ABSENT}, {(name, None): ...}),
            lambda: client.create_collection(name, metadata={"writer": self.number}, embedding_function=None),
            lambda made: {(name, None): str(made.id)},
        )
        self._put(made, "add", [f"{name}-{place}" for place in range(5)], bed)

    def _rename(self, client: Any, name: str) -> None:
        new_name = f"own-{self.number}-{self.step}"
        before = {key: value for key, value in self.state.items() if key[0] == name}
        after = {(new_name, key[1]): value for key, value in before.items()}
        collection = client.get_collection(name, embedding_function=None)
        self._ask(Change("rename", before, after), lambda: collection.modify(name=new_name))

    def _drop(self, client: Any, name: str) -> None:
        before = {key: value for key, value in self.state.items() if key[0] == name}
        self._ask(Change("drop", before, {}), lambda: client.delete_collection(name))

    def _ask(self, change: Change, request: Callable[[], Any], told: Callable[[Any], State] | None = None) -> Any:
        self.unanswered = change
        answer = request()
        self._apply(change.after if told is None else told(answer), change.before | change.after)
        self.unanswered = None
        self.acknowledged += 1
        return answer

    def _apply(self, outcome: State, touched: State) -> None:
        for key in touched:
            known = self.state.pop(key, None)
            if outcome.get(key) is not ABSENT:
                self.state[key] = outcome[key]
            elif isinstance(known, Record):
                self.gone.append(known.embedding)
