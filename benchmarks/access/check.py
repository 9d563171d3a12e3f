"""Measure what it costs to find out who asks, with many keys, beside a service that asks nobody.

    python -m benchmarks.access.check [--keys 10000] [--requests 2000]

The first part calls the check alone, with the headers of keys in random order. The second asks two services in turn,
one with keys and one that is open, for the same collection, over one kept connection each.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import requests

from benchmarks.report import machine
from interfaces.commands.scratch_service import scratch_service
from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from wrapper.access.authentication import Authentication
from wrapper.access.stored_keys import StoredKeys
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase

ADMIN_KEY = "an-administrators-key"
COLLECTION = "measured"


def check_alone(folder: Path, keys: int, checks: int) -> tuple[list[float], list[float]]:
    """Return the microseconds of each check, (of a key that this process sees the first time, of one it knows)."""
    catalog = Catalog(SQLiteDatabase(folder / "catalog.sqlite"))
    catalog.open()
    stored = StoredKeys(catalog)
    grant = Grant(frozenset({Scope.READ}), ("team-*",))
    texts = [stored.create(f"key {number}", grant)[1] for number in range(keys)]
    authentication = Authentication(AccessSettings("keys"), "127.0.0.1", stored)
    random.Random(0).shuffle(texts)
    first = [_timed(authentication, text) for text in texts]
    known = [_timed(authentication, random.choice(texts)) for _ in range(checks)]
    catalog.close()
    return first, known


def _timed(authentication: Authentication, text: str) -> float:
    headers = {"Authorization": f"Bearer {text}"}
    began = time.perf_counter()
    authentication.caller_of(lambda name: headers.get(name, ""))
    return (time.perf_counter() - began) * 1e6


def side_by_side(folder: Path, count: int) -> dict[str, list[float]]:
    """Return the milliseconds of requests to a service with keys and to an open one, asked in turn."""
    taken: dict[str, list[float]] = {"keys": [], "open": []}
    for name in taken:
        (folder / name).mkdir()
    with (
        scratch_service(folder / "keys", api_key=ADMIN_KEY, workers="1") as keyed,
        scratch_service(folder / "open", workers="1") as open_service,
        requests.Session() as with_key,
        requests.Session() as without,
    ):
        with_key.headers["Authorization"] = f"Bearer {ADMIN_KEY}"
        made = with_key.post(f"{keyed.url}/api/keys", json={"name": "reader", "scopes": ["read"]}).json()
        asked = (("keys", keyed, with_key), ("open", open_service, without))
        for _, service, session in asked:
            session.post(f"{service.url}/collections", json={"name": COLLECTION}).raise_for_status()
        with_key.headers["Authorization"] = f"Bearer {made['key']}"
        for number in range(count + 100):
            for name, service, session in asked:
                began = time.perf_counter()
                session.get(f"{service.url}/collections/{COLLECTION}").raise_for_status()
                if number >= 100:
                    taken[name].append((time.perf_counter() - began) * 1e3)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=2_000)
    asked = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        first, known = check_alone(Path(scratch), asked.keys, 20_000)
        print(f"check of a key that is new to the process: p50 {statistics.median(first):.1f} us")
        quantiles = statistics.quantiles(known, n=100)
        print(
            f"check of a known key, of {asked.keys}: p50 {statistics.median(known):.1f} us, p99 {quantiles[98]:.1f} us"
        )
    with tempfile.TemporaryDirectory() as scratch:
        taken = side_by_side(Path(scratch), asked.requests)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    print(f"GET of a collection: with keys p50 {medians['keys']:.3f} ms, open {medians['open']:.3f} ms")
    print(
        f"ratio {medians['keys'] / medians['open']:.3f}, difference {(medians['keys'] - medians['open']) * 1e3:.0f} us"
    )


if __name__ == "__main__":
    main()
