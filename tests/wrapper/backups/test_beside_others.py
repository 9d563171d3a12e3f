"""Catalogues in a PostgreSQL database of other programs, too: nothing of theirs is touched, whatever it is called."""

from dataclasses import replace

import pytest
from sqlalchemy.engine import make_url

from schemas.errors import ConfigurationError
from schemas.settings import AccessSettings, WrapperSettings
from tests.support.postgres import ROLE
from tests.wrapper.backups.conftest import Place
from tests.wrapper.documents import as_before
from wrapper.access.directory_keys import open_keys
from wrapper.access.stored_keys import StoredKeys
from wrapper.backups.making import opened_maker
from wrapper.catalog.postgres import copies
from wrapper.catalog.postgres.database import PostgresDatabase
from wrapper.catalog.postgres.leadership import SHARED_ENGINE, AdvisoryLeadership
from wrapper.catalog.postgres.own_tables import own_tables
from wrapper.catalog_choice import catalog_access, check_access
from wrapper.erasing.traces import tables_with
from wrapper.host import open_host, opened_catalogue

OLD = "public"
"""Where releases without a schema of their own have made catalogues."""
THEIRS = {
    "rag_wrapper": ("documents", "schema_version", "api_keys", "restore_under_way", "words", "invoices"),
    OLD: ("api_keys", "note_sessions", "words", "words_1", "invoices"),
}
"""What another program has in `public`, by where our catalogue is: there are no two tables of one name."""
MAKE = """SET ROLE {1}; CREATE TABLE public.{0} (id TEXT PRIMARY KEY, version TEXT, label TEXT);
CREATE INDEX {0}_label ON public.{0} (label);
INSERT INTO public.{0} SELECT n, n, 'text of a' FROM generate_series(1, 100) n; DELETE FROM public.{0} WHERE id > '5'"""


class Shared:
    """A database of several programs, in which all have our role, and `place`, which is ours."""

    def __init__(self, server, url, tmp_path):
        self._server, self._name = server, make_url(url).database
        self.run(f"GRANT CREATE ON SCHEMA public TO {ROLE}; GRANT CREATE ON DATABASE {self._name} TO {ROLE}")
        settings = WrapperSettings(data_dir=tmp_path / "data", catalog_url=url.split("?")[0], disk_floor_mb=1)
        settings.data_dir.mkdir()
        self.place = Place(settings)

    def with_settings(self, **settings):
        return Place(replace(self.place.settings, **settings))

    def connection(self):
        return self._server._connection(self._name)

    def run(self, statements):
        with self.connection() as connection:
            done = connection.execute(statements)
            return done.fetchall() if done.description else None

    def add_theirs(self, tables):
        for table in tables:
            self.run(MAKE.format(table, ROLE))
        return lambda: [
            (
                self.run(
                    f"SELECT oid, relnamespace, relfilenode FROM pg_class WHERE oid = 'public.{table}{end}'::regclass"
                ),
                end or self.run(f"SELECT ctid, xmin, * FROM public.{table}"),
            )
            for table in tables
            for end in ("", "_pkey", "_label")
        ]


@pytest.fixture
def shared(postgres, tmp_path):
    with postgres.catalogue(empty=True) as url:
        yield Shared(postgres, url, tmp_path)


@pytest.mark.parametrize("schema", THEIRS)
def test_backups_restores_erasures_and_migrations_leave_others_tables_as_they_are(
    shared, tmp_path, schema, monkeypatch
):
    place = shared.place
    if schema == OLD:
        shared.with_settings(catalog_url=f"{place.settings.catalog_url}?options=-csearch_path%3Dpublic").fill(["a"])
    shared.run("CREATE SCHEMA app; CREATE TABLE app.tenants (name TEXT PRIMARY KEY)")  # with columns of ours alone
    theirs = shared.add_theirs(THEIRS[schema])
    before = theirs()
    place.fill(["b", "c"])
    assert shared.run(f"SELECT count(*) FROM {schema}.documents") == [(3 if schema == OLD else 2,)]
    size_bytes = catalog_access(place.settings).copies.size_bytes
    size = size_bytes()
    shared.run("INSERT INTO public.invoices SELECT -n, repeat('x', 900), 'x' FROM generate_series(1, 999) n")
    assert size_bytes() == size > 0
    shared.run("DELETE FROM public.invoices WHERE label = 'x'")
    if schema == OLD:  # as such releases have made backups, too
        monkeypatch.setattr(copies, "own_tables", lambda rows: [*own_tables(rows), "invoices"])
    file, rows = place.back_up(tmp_path / "backups"), place.rows()
    monkeypatch.undo()
    place.fill(["later"])
    done = place.restore(file, replace=True)
    assert place.rows() == rows
    assert shared.run(f"SELECT count(*) FROM {done.aside_schema}.documents") == [(len(rows[0]) + 1,)]
    with place.opened() as catalog:
        assert catalog.rewrite(wait_seconds=30) is None
        with catalog.read() as transaction:
            assert tables_with(transaction, "postgresql", b"text of a") == (["collection 'library'"] * (schema == OLD))
    as_before(catalog_access(place.settings).database, 10)
    with place.opened() as catalog:
        if schema == OLD:
            with pytest.raises(ConfigurationError, match="another program: api_keys"):
                StoredKeys(catalog)
    assert place.rows()[0] == rows[0]
    assert theirs() == before
    assert shared.run("SELECT * FROM app.tenants") == []


def test_catalogues_in_two_schemas_of_a_database_do_not_wait_for_one_another(shared):
    one, two = (PostgresDatabase(shared.place.settings.catalog_url, schema) for schema in ("one", "two"))
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
    for close in (*(lead.release for lead in leads), one.close, two.close):
        close()


def test_a_role_that_may_not_make_the_schema_is_told_what_to_run_and_that_helps(shared):
    shared.run(f"REVOKE ALL ON DATABASE {shared._name} FROM {ROLE}")
    place = shared.with_settings(catalog_schema="of_ours")
    with pytest.raises(ConfigurationError, match="run: CREATE SCHEMA") as refused:
        place.fill(["a"])
    shared.run(refused.value.message.partition(" run: ")[2])
    place.fill(["a"])
    assert shared.run("SELECT id FROM of_ours.documents") == [("a",)]


@pytest.mark.parametrize("schema", ["rag_wrapper", "of_ours"])
def test_no_service_begins_empty_in_the_schema_it_is_told_of_beside_a_catalogue(shared, schema):
    told = shared.with_settings(catalog_schema=schema)
    check_access(told.settings)
    settings = told.settings
    for opened in (opened_catalogue(settings), open_keys(settings, makes=False), opened_maker(settings, None)):
        with pytest.raises(ConfigurationError, match=f"there is no catalogue in the schema '{schema}'"), opened:
            pass
    assert shared.run(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'") == []
    (before := shared.with_settings(catalog_schema=OLD)).fill(["a"])
    for place in (before, shared.place):
        check_access(place.settings)
        assert place.rows() == before.rows()
    rows = before.rows()
    refusal = f"in the schema '{schema}', but one in the schema 'public'"
    with pytest.raises(ConfigurationError, match=refusal):
        check_access(told.settings)
    with shared.connection() as connection:
        connection.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {ROLE}")
        with pytest.raises(ConfigurationError, match=refusal) as refused:
            check_access(told.settings)
        connection.execute(f"DROP SCHEMA {schema}; SET ROLE {ROLE}")
        connection.execute(refused.value.message.partition(" run: ")[2])
        check_access(told.settings)
        assert told.rows() == rows
        for table in ("collections", "aliases", "outbox", "part_versions", "erasure_marks"):
            connection.execute(f"ALTER TABLE {schema}.{table} SET SCHEMA public")
            with pytest.raises(ConfigurationError, match="moved, move all of it") as refused:
                told.rows()
            assert (f"lacks tables: {table}." in refused.value.message) == (table not in ("outbox", "part_versions"))
            connection.execute(f"ALTER TABLE public.{table} SET SCHEMA {schema}")
            assert told.rows() == rows


@pytest.mark.parametrize("theirs", ["VIEW documents AS SELECT 1", "TYPE collections AS ENUM ()", "SEQUENCE api_keys"])
def test_a_view_or_type_of_another_program_with_a_name_of_ours_is_a_sentence(shared, theirs):
    shared.run(f"CREATE {theirs}")
    with (
        pytest.raises(ConfigurationError, match=f"of another program: {theirs.split()[1]}"),
        shared.with_settings(catalog_schema=OLD).opened() as catalog,
    ):
        StoredKeys(catalog)


@pytest.mark.parametrize("version", [0, 12])
def test_a_table_of_another_program_with_a_name_of_ours_is_never_taken_for_ours(shared, tmp_path, version):
    place = shared.with_settings(catalog_schema="public", data_dir=tmp_path / "other")
    if version:
        place.fill(["a"])
        as_before(catalog_access(place.settings).database, version, "DROP TABLE aliases")
    tables = ("aliases",) if version else ("documents", "schema_version")
    theirs = shared.add_theirs(tables)
    before = theirs()
    with pytest.raises(ConfigurationError, match=f"of another program: {', '.join(tables)}"):
        place.rows()
    if not version:
        shared.place.fill(["a"])
        file = shared.place.back_up(tmp_path / "backups", whole=False)
        with pytest.raises(ConfigurationError, match=f"of another program: {', '.join(tables)}"):
            place.restore(file)
        new = shared.with_settings(catalog_schema="new")
        with pytest.raises(ConfigurationError, match="not the catalogue with which"):
            open_host(new.settings, AccessSettings(), serves=False)
        assert new.restore(file, replace=True).aside_schema is None
    assert theirs() == before


def test_an_erasure_waits_for_what_roles_see_whose_sessions_are_hidden_from_ours(shared):
    shared.place.fill(["a"])
    with shared.place.opened() as catalog, shared.connection() as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        assert "still under way" in catalog.rewrite(wait_seconds=0.1)
        other.execute("COMMIT")
        assert catalog.rewrite(wait_seconds=30) is None
