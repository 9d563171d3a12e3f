"""Catalogues that several processes open at the same moment, those that earlier releases wrote, and one that is closed while
threads use it: what they have begun ends first."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import orjson
import pytest
from sqlalchemy import text

from schemas.errors import UnavailableError
from schemas.storage.outcomes import WriteOutcome
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.documents import as_before, create
from wrapper.catalog import idempotency
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import CLOSED
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import all_collections

KEPT_BEFORE = (
    "INSERT INTO idempotency_keys (key, request_digest, answer, created_at_seconds) "
    "VALUES (:key, :request_digest, :answer, :created_at_seconds)"
)


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


@pytest.fixture
def database(open_database):
    database = open_database()
    Catalog(database).open()
    yield database
    database.close()


def numbers(database):
    with database.read() as transaction:
        return [row[0] for row in transaction.rows("SELECT n FROM numbers ORDER BY n")]


@pytest.mark.parametrize("way", ["read", "write"])
def test_a_transaction_under_way_ends_in_its_thread_when_the_database_is_closed(database, open_database, way):
    with database.write() as transaction:
        transaction.run("CREATE TABLE numbers (n INTEGER)")
        transaction.run("INSERT INTO numbers VALUES (1)")
    began, closed = threading.Event(), threading.Event()

    def use():
        with getattr(database, way)() as transaction:
            found = [row[0] for row in transaction.rows("SELECT n FROM numbers")]
            began.set()
            assert closed.wait(PATIENCE_SECONDS)
            if way == "write":
                transaction.run("INSERT INTO numbers VALUES (2)")
            return found + [row[0] for row in transaction.rows("SELECT n FROM numbers ORDER BY n")]

    with ThreadPoolExecutor(1) as threads:
        used = threads.submit(use)
        assert began.wait(PATIENCE_SECONDS)
        database.close()
        closed.set()
        assert used.result(PATIENCE_SECONDS) == ([1, 1, 2] if way == "write" else [1, 1])
    with pytest.raises(UnavailableError, match=CLOSED), getattr(database, way)():
        pass
    assert numbers(open_database()) == ([1, 2] if way == "write" else [1])
