"""Measure how much metadata Chroma can hold in one record, and in one call.

    python -m benchmarks.engine_bounds

It finds, by halving, the most fields of a record, the most elements in its lists, the longest key and the most fields
taken back by null that a Chroma server of this installation stores, on a scratch directory. A record beyond that is not
refused: its collection answers every later request with an internal error, so each attempt has a collection of its own.
Then it times calls of many records, each within the bounds. The figures are the reason for `MAX_…` in
`schemas/metadata.py`, `MOST_…` in `wrapper/engine/encoding.py` and `VALUES_PER_CALL` in `wrapper/engine/client.py`
(`docs/engine.md`, "What a record may have").
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import RagError
from wrapper.engine.client import EngineClient
from wrapper.engine.keeper.chroma_child import ChromaChild
from wrapper.engine.server_access import STOCK
from wrapper.engine.transport import Transport, encode_body

START_SECONDS, CALL_SECONDS = 60.0, 300.0
COLLECTIONS = STOCK.collections_path
VECTOR = b64encode(np.ones(8, dtype="<f4").tobytes()).decode()

Metadata = dict[str, Any]


def fields(number: int) -> Metadata:
    return {f"k{place}": place for place in range(number)}


def elements(number: int) -> Metadata:
    return {"list": list(range(number))}


def elements_of_many_lists(number: int) -> Metadata:
    return {f"list {start}": list(range(min(10, number - start))) for start in range(0, number, 10)}


def key(number: int) -> Metadata:
    return {"k" * number: 1}


class Attempts:
    """Attempts to store records as they are, which the service's own client would make fit."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def stores(self, *versions: Metadata) -> bool:
        """Return whether the server stores a record with these metadata, one after the other."""
        return self.seconds([versions[0]], *([version] for version in versions[1:])) is not None

    def seconds(self, *calls: list[Metadata]) -> float | None:
        """Return the seconds that the calls took, None when one of them failed."""
        name = f"bounds-{uuid.uuid4().hex}"
        made = self._transport.call("POST", COLLECTIONS, {"name": name}, timeout_seconds=CALL_SECONDS)
        began = time.perf_counter()
        try:
            for metadatas in calls:
                body = {
                    "ids": [f"d{place}" for place in range(len(metadatas))],
                    "embeddings": [VECTOR] * len(metadatas),
                    "metadatas": metadatas,
                }
                path = f"{COLLECTIONS}/{made['id']}/upsert"
                self._transport.send("POST", path, encode_body(body), timeout_seconds=CALL_SECONDS)
            return time.perf_counter() - began
        except RagError:
            return None
        finally:
            self._transport.call("DELETE", f"{COLLECTIONS}/{name}", timeout_seconds=CALL_SECONDS)


def most(bears: Callable[[int], bool], upper: int) -> int:
    """Return the largest number from 1 to `upper` for which `bears` is true."""
    least, beyond = 1, upper + 1
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if bears(middle):
            least = middle
        else:
            beyond = middle
    return least


@contextmanager
def running_engine(directory: Path) -> Iterator[Transport]:
    child = ChromaChild(directory, python=sys.executable)
    client = EngineClient(lambda: child.url)
    transport = Transport(lambda: child.url, pool_size=1, sleep=time.sleep)
    try:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                client.heartbeat()
                break
            except RagError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield transport
    finally:
        client.close()
        transport.close()
        child.stop(grace_seconds=10)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, running_engine(Path(directory)) as transport:
        attempts = Attempts(transport)
        rows = [
            ("fields of a record", most(lambda number: attempts.stores(fields(number)), 20_000)),
            ("elements of a list", most(lambda number: attempts.stores(elements(number)), 20_000)),
            (
                "elements of all lists of a record",
                most(lambda number: attempts.stores(elements_of_many_lists(number)), 20_000),
            ),
            (
                "elements beside 5,000 fields",
                most(lambda number: attempts.stores({**fields(5_000), **elements(number)}), 20_000),
            ),
            ("bytes of a key", most(lambda number: attempts.stores(key(number)), 1 << 20)),
            (
                "fields taken back at a time",
                most(lambda number: attempts.stores(fields(1), dict.fromkeys(fields(number))), 60_000),
            ),
        ]
        for label, number in rows:
            print(f"{label:50} {number:>9,}", flush=True)
        long_keys = {f"{place:04}".ljust(512, "x"): place for place in range(2_000)}
        for label, metadatas in (
            ("25 records of 2,000 fields", [fields(2_000)] * 25),
            ("25 records of 2,000 fields with keys of 512 bytes", [long_keys] * 25),
            ("25 records of 2,000 elements", [elements(2_000)] * 25),
            ("500 records of 100 fields", [fields(100)] * 500),
        ):
            print(f"{label:50} {attempts.seconds(metadatas) or float('nan'):>7.1f} s", flush=True)


if __name__ == "__main__":
    main()
