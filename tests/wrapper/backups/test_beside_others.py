"""Catalogues in a PostgreSQL database that other programs use, too: nothing of theirs is touched, whatever it is called."""

from contextlib import closing
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy.engine import make_url

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from tests.support.postgres import ROLE
from tests.wrapper.backups.conftest import Place
from tests.wrapper.documents import as_before
from wrapper.access.stored_keys import StoredKeys
from wrapper.catalog.postgres.database import PostgresDatabase
from wrapper.catalog.postgres.leadership import SHARED_ENGINE, AdvisoryLeadership
from wrapper.catalog_choice import catalog_access
from wrapper.erasing.traces import tables_with

OLD = "public"
THEIRS = {
    "rag_wrapper": ("documents", "schema_version", "api_keys", "restore_under_way", "words", "invoices"),
    OLD: ("api_keys", "note_sessions", "words", "words_1", "invoices"),
}
"""What another program has in `public`, by where our catalogue is: there are no two tables of one name."""


class Shared:
    """A database of several programs, in which our role may do everything."""

    def __init__(self, server, url):
        self.url, self._database, self._server = url.split("?")[0], make_url(url).database, server
        self.run(f"GRANT CREATE ON SCHEMA public TO {ROLE}; GRANT CREATE ON DATABASE {self._database} TO {ROLE}")

    def run(self, statements):
        with self._server._connection(self._database) as connection:
            return connection.execute(statements)

    def add_theirs(self, tables):
        """Let another program make tables, with the role that is ours, too."""
        with closing(psycopg.connect(make_url(self.url).set(drivername="postgresql").render_as_string(False))) as its:
            for table in tables:
                its.execute(f"CREATE TABLE public.{table} (id TEXT PRIMARY KEY, version TEXT, label TEXT)")
                its.execute(f"CREATE INDEX {table}_label ON public.{table} (label)")
                its.execute(f"INSERT INTO public.{table} SELECT n, n, 'text of a' FROM generate_series(1, 100) n")
                its.execute(f"DELETE FROM public.{table} WHERE id > '5'")
            its.commit()

    def theirs(self, tables):
        """Return their tables and indexes with the files they are in, and their rows with where and by whom they are."""
        files = "SELECT oid, relnamespace, relname, relfilenode FROM pg_class WHERE relname = ANY(%s) AND "
        here = "relnamespace = 'public'::regnamespace ORDER BY oid"
        names = [f"{table}{end}" for table in tables for end in ("", "_pkey", "_label")]
        with self._server._connection(self._database) as connection:
            found = connection.execute(files + here, (names,)).fetchall()
            rows = [connection.execute(f"SELECT ctid, xmin, * FROM public.{each}").fetchall() for each in tables]
        return found, rows


@pytest.fixture
def shared(postgres):
    with postgres.catalogue(empty=True) as url:
        yield Shared(postgres, url)


@pytest.mark.parametrize("schema", THEIRS)
def test_backups_restores_erasures_and_migrations_leave_others_tables_as_they_are(shared, tmp_path, schema):
    place = Place(WrapperSettings(data_dir=tmp_path / "data", catalog_url=shared.url, disk_floor_mb=1))
    place.data_dir.mkdir()
    if schema == OLD:  # as releases without a schema of their own have made it
        address = f"{shared.url}?options=-csearch_path%3Dpublic"
        Place(WrapperSettings(data_dir=tmp_path / "data", catalog_url=address)).fill(["a"])
    shared.add_theirs(THEIRS[schema])
    before = shared.theirs(THEIRS[schema])
    place.fill(["b", "c"])
    assert shared.run(f"SELECT count(*) FROM {schema}.documents").fetchone() == (3 if schema == OLD else 2,)
    copies, size = catalog_access(place.settings).copies, catalog_access(place.settings).copies.size_bytes()
    shared.run("INSERT INTO public.invoices SELECT -n, repeat('x', 900), 'x' FROM generate_series(1, 999) n")
    assert copies.size_bytes() == size > 0
    shared.run("DELETE FROM public.invoices WHERE label = 'x'")
    file, rows = place.back_up(tmp_path / "backups"), place.rows()
    place.fill(["later"])
    done = place.restore(file, replace=True)
    assert place.rows() == rows
    assert shared.run(f"SELECT count(*) FROM {done.aside_schema}.documents").fetchone() == (len(rows[0]) + 1,)
    with place.opened() as catalog:
        assert catalog.rewrite(wait_seconds=30) is None
        with catalog.read() as transaction:
            assert tables_with(transaction, "postgresql", b"text of a") == (["collection 'library'"] * (schema == OLD))
    as_before(catalog_access(place.settings).database, 10)
    assert place.rows()[0] == rows[0]
    if schema == OLD:
        with place.opened() as catalog, pytest.raises(ConfigurationError, match="another program: api_keys"):
            StoredKeys(catalog)
    assert shared.theirs(THEIRS[schema]) == before


def test_catalogues_in_two_schemas_of_a_database_do_not_wait_for_one_another(shared):
    one, two = (PostgresDatabase(shared.url, schema) for schema in ("one", "two"))
    for database in (one, two):
        database.migrate(lambda connection: connection.exec_driver_sql("CREATE TABLE numbers (n INTEGER)"))
    leads = [AdvisoryLeadership(database.connect, SHARED_ENGINE) for database in (one, two)]
    with one.change_counter() as of_one, two.change_counter() as of_two:
        first = of_one(), of_two()
        with one.write() as writing, two.write(wait_seconds=1) as beside:
            writing.run("INSERT INTO numbers VALUES (1)")
            beside.run("INSERT INTO numbers VALUES (2), (3)")
        with one.read() as transaction:
            assert transaction.rows("SELECT n FROM numbers") == [(1,)]
        assert all(lead.acquire() for lead in leads)
        assert (of_one(), of_two()) == (first[0] + 1, first[1] + 1)
    for each in (*leads, one, two):
        (each.release if each in leads else each.close)()


def test_a_role_that_may_not_make_the_schema_is_told_what_to_run_and_that_helps(postgres, tmp_path):
    with postgres.catalogue(empty=True) as url:
        shared = Shared(postgres, url)
        shared.run(f"REVOKE ALL ON DATABASE {shared._database} FROM {ROLE}")
        place = Place(WrapperSettings(data_dir=tmp_path / "data", catalog_url=shared.url, catalog_schema="of_ours"))
        place.data_dir.mkdir()
        with pytest.raises(ConfigurationError, match="run: CREATE SCHEMA") as refused:
            place.fill(["a"])
        shared.run(refused.value.message.partition(" run: ")[2])
        place.fill(["a"])
        assert [row[1] for row in place.rows()[0]] == ["a"]


@pytest.mark.parametrize("version", [0, 12])
def test_a_table_of_another_program_with_a_name_of_ours_is_never_taken_for_ours(shared, tmp_path, version):
    place = Place(WrapperSettings(data_dir=tmp_path / "data", catalog_url=shared.url, catalog_schema="public"))
    place.data_dir.mkdir()
    file = None
    if version:
        place.fill(["a"])
        as_before(catalog_access(place.settings).database, version, "DROP TABLE aliases")
    else:
        elsewhere = Place(WrapperSettings(data_dir=tmp_path / "elsewhere", catalog_url=shared.url))
        elsewhere.data_dir.mkdir()
        elsewhere.fill(["a"])
        file = elsewhere.back_up(tmp_path / "backups", whole=False)
    theirs = ("aliases",) if version else ("schema_version", "documents")
    shared.add_theirs(theirs)
    before = shared.theirs(theirs)
    with pytest.raises(ConfigurationError, match=f"of another program: {', '.join(sorted(theirs))}"):
        place.rows()
    if file is not None:
        with pytest.raises(ConfigurationError, match=f"of another program: {', '.join(sorted(theirs))}"):
            place.restore(file)
        emptied = Place(replace(place.settings, catalog_schema="elsewhere"))
        assert emptied.restore(file, replace=True).aside_schema is None
    assert shared.theirs(theirs) == before


def test_an_erasure_waits_for_what_roles_see_whose_sessions_are_hidden_from_ours(shared, tmp_path):
    place = Place(WrapperSettings(data_dir=tmp_path / "data", catalog_url=shared.url))
    place.data_dir.mkdir()
    place.fill(["a"])
    with place.opened() as catalog, shared._server._connection(shared._database) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        assert "still under way" in catalog.rewrite(wait_seconds=0.1)
        other.execute("COMMIT")
        assert catalog.rewrite(wait_seconds=30) is None
