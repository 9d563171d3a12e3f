"""Transactions, and the commit that concurrent writers share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import pytest

from schemas.access.callers import ANYBODY, SERVICE, acting_as, current_or_none
from schemas.errors import (
    ClientGoneError,
    ConfigurationError,
    ConflictError,
    RagError,
    ReadTimeoutError,
    TooComplexError,
    TooSlowError,
    UnavailableError,
)
from schemas.storage.read_limits import ReadLimit, limited
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.catalog.conftest import SQLITE
from wrapper.audit import noted
from wrapper.catalog import migrations
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox
from wrapper.catalog.rows import draw
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.observing import metrics

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


class CountedDatabase:
    """Counts write transactions, and holds up the first until `go` is set."""

    def __init__(self, database):
        self._database = database
        self.go = threading.Event()
        self.writing = threading.Event()
        self.transactions = 0

    def __getattr__(self, name):
        return getattr(self._database, name)

    def write(self, **how):
        self.transactions += 1
        self.writing.set()
        assert self.go.wait(PATIENCE_SECONDS)
        return self._database.write(**how)


@pytest.fixture
def counted(open_database):
    database = CountedDatabase(open_database())
    catalog = Catalog(database)
    catalog.open()
    return catalog, database


def _commit_behind_one(catalog, database, operations):
    """Let the operations pile up behind a running write, then let them all go. Return each one's result or error."""
    with ThreadPoolExecutor(1 + len(operations)) as threads:
        first = threads.submit(catalog.commit, lambda transaction: draw(transaction, "outbox"))
        assert database.writing.wait(PATIENCE_SECONDS)
        committed = [threads.submit(catalog.commit, operation) for operation in operations]
        eventually(lambda: catalog._commits.waiting == len(operations))
        database.go.set()
        first.result(PATIENCE_SECONDS)
        return [each.exception(PATIENCE_SECONDS) or each.result() for each in committed]


def _append(number):
    return lambda transaction: outbox.append(transaction, number, outbox.METADATA, {"name": str(number)})


def _kept(catalog):
    with catalog.read() as transaction:
        return sorted(entry.collection_key for entry in outbox.oldest(transaction, limit=1000))


@SQLITE
def test_waiting_writers_share_a_commit(counted):
    catalog, database = counted
    outcomes = _commit_behind_one(catalog, database, [_append(number) for number in range(20)])
    assert database.transactions == 2
    assert sorted(outcomes) == list(range(2, 22))
    assert _kept(catalog) == list(range(20))


@pytest.mark.parametrize(
    ("error", "told", "transactions"),
    [(ConflictError, ConflictError, 2), ("of the driver", RagError, 5), (ValueError, ValueError, 5)],
)
def test_a_writer_that_is_refused_or_breaks_the_transaction_harms_nobody_and_leaves_nothing(
    counted, error, told, transactions
):
    catalog, database = counted

    def broken(transaction):
        _append(99)(transaction)
        raise (database.errors[-1] if error == "of the driver" else error)("no")

    outcomes = _commit_behind_one(catalog, database, [_append(0), broken, _append(2)])
    assert isinstance(outcomes[1], told)
    assert database.transactions == transactions
    assert _kept(catalog) == [0, 2]


@pytest.mark.parametrize(("sql", "kind"), [("no SQL", RagError), (f"SELECT 1{'+1' * 100_000}", TooComplexError)])
def test_what_the_database_refuses_is_no_outage_and_leaves_the_connection_usable(catalog, sql, kind):
    for _ in range(3):
        with pytest.raises(RagError) as refused:
            catalog.commit(lambda transaction: transaction.run(sql))
        assert type(refused.value) is kind
    catalog.commit(_append(1))
    assert _kept(catalog) == [1]


def test_a_file_that_is_no_database_is_an_outage(tmp_path):
    (tmp_path / "catalog.sqlite").write_bytes(b"no database" * 1_000)
    with closing(SQLiteDatabase(tmp_path / "catalog.sqlite")) as database, pytest.raises(UnavailableError):
        Catalog(database).open()


def test_a_reader_sees_one_snapshot_while_others_write(catalog):
    catalog.commit(_append(1))
    with catalog.read() as transaction:
        before = outbox.lag(transaction)
        thread = threading.Thread(target=lambda: catalog.commit(_append(2)))
        thread.start()
        thread.join(PATIENCE_SECONDS)
        assert outbox.lag(transaction) == before == 1
    assert _kept(catalog) == [1, 2]


def test_a_commit_is_on_disk_before_it_counts(catalog):
    settings = {
        "sqlite": [("PRAGMA synchronous", 2), ("PRAGMA journal_mode", "wal")],
        "postgresql": [("SHOW synchronous_commit", "on")],
    }
    for statement, setting in settings[catalog.kind]:
        assert catalog.commit(lambda transaction, statement=statement: transaction.value(statement)) == setting


def test_the_change_counter_tells_of_other_connections(catalog):
    with catalog.change_counter() as changes:
        before = changes()
        assert changes() == before
        catalog.commit(_append(1))
        # PostgreSQL delivers a notification soon after the commit, not with it.
        eventually(lambda: changes() != before)


def test_opening_again_changes_nothing_and_a_catalogue_of_a_newer_release_is_refused(catalog, open_database):
    catalog.commit(_append(1))
    again = Catalog(open_database())
    again.open()
    assert _kept(again) == [1]
    newer = len(migrations.STEPS) + 1
    catalog.commit(lambda transaction: transaction.run("INSERT INTO schema_version VALUES (?)", (newer,)))
    again = Catalog(open_database())
    with pytest.raises(ConfigurationError, match="newer release"):
        again.open()


def test_two_processes_may_open_a_new_catalogue_at_once(open_empty_database):
    catalogs = [Catalog(open_empty_database()) for _ in range(4)]
    with ThreadPoolExecutor(len(catalogs)) as threads:
        list(threads.map(Catalog.open, catalogs))
    with catalogs[0].read() as transaction:
        assert transaction.value("SELECT count(*) FROM schema_version") == len(migrations.STEPS)
        assert transaction.value("SELECT count(*) FROM counters WHERE name <> 'words'") == 3


@pytest.mark.slow
def test_a_statement_that_takes_too_long_is_given_up(open_database):
    hasty = Catalog(open_database(statement_seconds=0.5))
    hasty.open()
    with pytest.raises(TooSlowError), hasty.read() as transaction:
        transaction.value(ENDLESS)

    def write_and_search(transaction):
        _append(1)(transaction)
        transaction.rows(ENDLESS)

    with pytest.raises(TooSlowError):
        hasty.commit(write_and_search)
    hasty.commit(_append(2))
    assert _kept(hasty) == [2]


def _read_endlessly(transaction, in_blocks, under_way):
    under_way.append(ENDLESS)
    try:
        list(transaction.blocks(ENDLESS, (), 10)) if in_blocks else transaction.value(ENDLESS)
    finally:
        under_way.clear()


@pytest.mark.parametrize("in_blocks", [False, True])
def test_reads_end_with_the_limit_of_their_request_and_writes_do_not(open_database, in_blocks):
    catalog = Catalog(open_database())
    catalog.open()
    with limited(ReadLimit(0.1, lambda: False)):
        with pytest.raises(ReadTimeoutError, match=r"longer than 0\.1 seconds"), catalog.read() as transaction:
            _read_endlessly(transaction, in_blocks, [])
        with pytest.raises(ReadTimeoutError), catalog.read():
            pass
        catalog.commit(_append(1))
    assert _kept(catalog) == [1]
    seconds, asked, looks = count(), [], count()  # the client leaves within the statement, and is seen there alone
    limit = ReadLimit(1e6, lambda: bool(asked) and next(looks) > 0, lambda: next(seconds))
    with limited(limit), pytest.raises(ClientGoneError), catalog.read() as transaction:
        _read_endlessly(transaction, in_blocks, asked)


@pytest.mark.slow
def test_reads_in_blocks_and_writes_may_take_their_time(open_database):
    usual, patient = Catalog(open_database()), Catalog(open_database(statement_seconds=0.05))
    usual.open()
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) SELECT "
    with patient.read() as transaction:
        assert sum(len(rows) for rows in transaction.blocks(f"{numbers} i FROM n", (), 1000)) == 400_000
        with pytest.raises(patient._database.errors):
            transaction.value(ENDLESS)
    patient.commit(lambda transaction: transaction.run(f"UPDATE counters SET value = ({numbers} count(*) FROM n)"))
    with usual.read() as transaction:
        assert outbox.newest(transaction) == 400_000


@SQLITE
def test_a_write_that_another_threads_commit_takes_along_runs_for_its_own_caller(catalog):
    seen, is_first_begun, may_end = {}, threading.Event(), threading.Event()

    def first(_):
        is_first_begun.set()
        assert may_end.wait(PATIENCE_SECONDS)

    def write(name, caller):
        def operation(_):
            noted.note_count(1)
            seen[name] = current_or_none(), threading.current_thread().name

        def run():
            count = noted.begin()
            catalog.commit(operation)
            seen[name] += (count.count,)

        if caller is None:
            run()
        else:
            with acting_as(caller):
                run()

    callers = {"anybody": ANYBODY, "service": SERVICE, "nobody": None}
    threads = [threading.Thread(target=catalog.commit, args=(first,))]
    threads += [threading.Thread(target=write, args=each, name=each[0]) for each in callers.items()]
    threads[0].start()
    assert is_first_begun.wait(PATIENCE_SECONDS)
    for each in threads[1:]:
        each.start()
    eventually(lambda: catalog._commits.waiting == len(callers))
    may_end.set()
    for each in threads:
        each.join(PATIENCE_SECONDS)
    assert {name: (caller, count) for name, (caller, _, count) in seen.items()} == {
        name: (caller, 1) for name, caller in callers.items()
    }
    assert len({thread for _, thread, _ in seen.values()}) == 1, "the writes did not share a commit"


@SQLITE
def test_the_age_of_the_oldest_read_under_way_is_known(open_database):
    now = [100.0]
    catalog = Catalog(open_database(), lambda: now[0])
    catalog.open()
    assert catalog.oldest_snapshot_seconds() == 0.0
    with catalog.read():
        now[0] += 5
        second = catalog.read()
        second.__enter__()
        now[0] += 2
        assert catalog.oldest_snapshot_seconds() == 7.0
    assert catalog.oldest_snapshot_seconds() == 2.0
    second.__exit__(None, None, None)
    assert catalog.oldest_snapshot_seconds() == 0.0
    with pytest.raises(ValueError, match="in the middle"), catalog.read():
        raise ValueError("in the middle")
    now[0] += 1
    assert catalog.oldest_snapshot_seconds() == 0.0


@pytest.mark.slow
def test_metrics_tell_of_an_export_under_way(client, app, filled, monkeypatch):
    name, gauge = filled(), metrics.OLDEST_SNAPSHOT_SECONDS
    tell = gauge.set

    def age():
        (line,) = (
            line
            for line in client.get("/metrics").get_data(as_text=True).splitlines()
            if line.startswith("rag_oldest_snapshot_seconds ")
        )
        return float(line.split()[1])

    with monkeypatch.context() as patched, app.extensions["rag.service"].store.export(name):
        # Other applications of this process set the same gauge, to 0, as nobody reads there.
        patched.setattr(gauge, "set", lambda seconds: tell(seconds) if seconds > 1 else None)
        eventually(lambda: age() > 1)
    eventually(lambda: age() < 1)
