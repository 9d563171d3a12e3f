"""Make catalogues for single tests, on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase


@contextmanager
def one_database(request, *, empty: bool = False) -> Iterator[Callable]:
    """Give `open_one(kind=None, **settings)`, which opens the test's one database, each time as a new object. `request`
    is that of a fixture with the parameters `sqlite`, the usual one, and `postgresql`. An `empty` database has no
    tables yet."""
    with ExitStack() as stack:
        if getattr(request, "param", "sqlite") == "sqlite":
            path = request.getfixturevalue("tmp_path") / "catalog.sqlite"
            if not empty:
                path.write_bytes(_new_catalogue())

            def open_one(kind=SQLiteDatabase, **settings):
                database = kind(path, **settings)
                stack.callback(database.close)
                return database

        else:
            from wrapper.catalog.postgres.database import PostgresDatabase

            url = stack.enter_context(request.getfixturevalue("postgres").catalogue(empty=empty))

            def open_one(kind=PostgresDatabase, **settings):
                database = kind(url, **settings)
                stack.callback(database.close)
                return database

        yield open_one


@cache
def _new_catalogue() -> bytes:
    """Return the file of a catalogue without documents, which is quicker to write than to make."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "catalog.sqlite"
        with closing(SQLiteDatabase(path)) as database:
            Catalog(database).open()
        return path.read_bytes()
