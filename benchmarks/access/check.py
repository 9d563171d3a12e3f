"""Measure what it costs to find out who asks, with many keys, beside a service that asks nobody.

    python -m benchmarks.access.check [--keys 10000] [--requests 2000]

The first part calls the check alone, with the headers of keys in random order. The second has a whole request answered
within this process, by an application with keys and one that is open in turn: their difference is what a key costs a
worker. The third asks two services in turn for the same collection, over one kept connection each, which adds what
client and server take for a longer request.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import requests
from flask import Flask
from werkzeug.test import EnvironBuilder, run_wsgi_app

from benchmarks.report import machine
from interfaces.commands.scratch_service import scratch_service
from interfaces.compose import create_app
from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings, RegistrySettings, RetrievalSettings, WrapperSettings
from wrapper.access.authentication import Authentication
from wrapper.access.stored_keys import StoredKeys
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase

ADMIN_KEY = "an-administrators-key"
COLLECTION = "measured"
NOBODY = "http://127.0.0.1:9"


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


def within_one_process(folder: Path, count: int) -> dict[str, list[float]]:
    """Return the microseconds of requests to an application with keys and to an open one, asked in turn."""
    apps: dict[str, Flask] = {}
    headers: dict[str, Any] = {}
    taken: dict[str, list[float]] = {"keys": [], "open": []}
    for name in taken:
        settings = WrapperSettings(data_dir=folder / name, chroma_url=NOBODY, write_wait_seconds=0.0, log_level="error")
        access = AccessSettings("keys" if name == "keys" else "")
        apps[name] = create_app(settings, RegistrySettings(), RetrievalSettings(), access)
        make = apps[name].extensions["rag.access"].stored.create
        rights = {"admin": Scope.ADMIN, "reader": Scope.READ} if name == "keys" else {}
        texts = {who: make(who, Grant(frozenset({scope})))[1] for who, scope in rights.items()}
        headers[name] = {"Authorization": f"Bearer {texts['reader']}"} if texts else {}
        admin = {"Authorization": f"Bearer {texts['admin']}"} if texts else {}
        assert (
            apps[name].test_client().post("/collections", json={"name": COLLECTION}, headers=admin).status_code == 201
        )
    for number in range(count + 100):
        for name, app in apps.items():
            environment = EnvironBuilder(path=f"/collections/{COLLECTION}", headers=headers[name]).get_environ()
            began = time.perf_counter()
            parts, status, _ = run_wsgi_app(app.wsgi_app, environment, buffered=True)
            b"".join(parts)
            if number >= 100:
                taken[name].append((time.perf_counter() - began) * 1e6)
            assert status.startswith("200"), status
    for app in apps.values():
        app.extensions["rag.service"].close()
    return taken


def side_by_side(folder: Path, count: int) -> dict[str, list[float]]:
    """Return the microseconds of requests to a service with keys and to an open one, asked in turn."""
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
                    taken[name].append((time.perf_counter() - began) * 1e6)
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
    for where, ask in (("within one process", within_one_process), ("from a service", side_by_side)):
        with tempfile.TemporaryDirectory() as scratch:
            taken = ask(Path(scratch), asked.requests)
        keys, is_open = (statistics.median(taken[name]) for name in ("keys", "open"))
        print(
            f"GET of a collection {where}: with keys p50 {keys:.0f} us, open {is_open:.0f} us, ratio "
            f"{keys / is_open:.3f}, difference {keys - is_open:.0f} us"
        )


if __name__ == "__main__":
    main()
