"""Catalogues that several processes open at the same moment, and those that earlier releases wrote."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import orjson
import pytest
from sqlalchemy import text

from schemas.storage.outcomes import WriteOutcome
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.documents import as_before, create
from wrapper.catalog import idempotency
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import all_collections
from wrapper.catalog.sqlite.database import SQLiteDatabase

WORKERS = 8
NEW_FILES = 15
KEPT_BEFORE = (
    "INSERT INTO idempotency_keys (key, request_digest, answer, created_at_seconds) "
    "VALUES (:key, :request_digest, :answer, :created_at_seconds)"
)


@pytest.mark.slow
def test_a_new_catalogue_is_made_by_whoever_comes_first_and_opened_by_all(tmp_path):
    for number in range(NEW_FILES):
        path = tmp_path / f"{number}.sqlite"
        together = threading.Barrier(WORKERS)

        def open_one(path=path, together=together):
            catalog = Catalog(SQLiteDatabase(path))
            together.wait()
            catalog.open()
            with catalog.read() as transaction:
                found = all_collections(transaction)
            catalog.close()
            return found

        with ThreadPoolExecutor(WORKERS) as pool:
            assert [each.result() for each in [pool.submit(open_one) for _ in range(WORKERS)]] == [[]] * WORKERS


def test_whoever_waits_for_a_new_catalogue_sees_it_whatever_the_database_has_for_isolation(postgres):
    from wrapper.catalog.postgres.database import LOCK, PostgresDatabase

    with (
        postgres.catalogue(empty=True) as url,
        closing(PostgresDatabase(url).connect()) as first,
        ThreadPoolExecutor(2) as pool,
    ):
        first.execute("BEGIN")
        first.execute(LOCK)
        catalogs = [
            Catalog(PostgresDatabase(f"{url}%20-cdefault_transaction_isolation%3Dserializable")) for _ in range(2)
        ]
        opened = [pool.submit(catalog.open) for catalog in catalogs]
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually(lambda: first.execute(waiting).fetchone() == (2,))
        first.execute("COMMIT")
        for catalog, each in zip(catalogs, opened, strict=True):
            each.result(PATIENCE_SECONDS)
            catalog.close()


def test_collections_of_earlier_releases_get_ids_of_their_own_and_their_kept_answers_lose_texts(open_database):
    database = open_database()
    catalog = Catalog(database)
    catalog.open()
    create(catalog, "one", "two")
    answers = {"patch": {"id": "a", "text": "a secret", "metadata": {}}, "add": {"ids": ["a"], "count": 1}}

    def as_it_was(connection):
        connection.execute(text("DROP INDEX collections_by_id"))
        connection.execute(text("ALTER TABLE collections DROP COLUMN id"))
        connection.execute(text("ALTER TABLE idempotency_keys RENAME COLUMN outcome TO answer"))
        connection.execute(text("DELETE FROM schema_version WHERE version > 5"))
        for key, answer in answers.items():
            kept = {"key": key, "request_digest": "d", "answer": orjson.dumps([answer, "1.1"]), "created_at_seconds": 0}
            connection.execute(text(KEPT_BEFORE), kept)

    database.migrate(as_it_was)
    Catalog(database).open()
    with catalog.read() as transaction:
        ids = {uuid.UUID(each.id) for each in all_collections(transaction)}
        kept = {key: idempotency.find(transaction, key, "d", WriteOutcome).outcome.answer for key in answers}
    assert len(ids) == 2
    assert kept == {"patch": {"id": "a"}, "add": answers["add"]}


def test_what_waited_for_the_index_in_an_earlier_release_counts_by_its_documents(open_database):
    database = open_database()
    catalog = Catalog(database)
    catalog.open()
    create(catalog, "one")
    with catalog.read() as transaction:
        key = all_collections(transaction)[0].key
    payloads = [
        {"upsert": [["a", None], ["b", []]], "delete": ["c"]},
        {"upsert": [["d", None]], "delete": [], "again": True},
    ]
    for payload in payloads:
        catalog.commit(lambda transaction, payload=payload: outbox.append(transaction, key, outbox.DOCUMENTS, payload))
    as_before(
        database,
        16,
        "DROP INDEX outbox_sizes",
        "ALTER TABLE outbox DROP COLUMN documents",
        "CREATE INDEX outbox_by_collection ON outbox (collection_key, id)",
    )
    Catalog(database).open()
    with catalog.read() as transaction:
        assert outbox.sizes(transaction, key) == (3, 4)
        assert [entry.payload for entry in outbox.oldest(transaction, limit=9)[1:]] == payloads
