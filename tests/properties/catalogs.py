"""Make a catalogue for many short examples: real SQLite on a real file, without waiting for the disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import event

from providers.contract_tests.model import ModelDocument
from tests.properties.strategies import to_batch
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase


class QuickDatabase(SQLiteDatabase):
    """A database that does not wait for the disk on commit, because no example cuts the power."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        event.listen(self._engine, "connect", _do_not_wait)


def _do_not_wait(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


def open_catalog(path: Path) -> Catalog:
    catalog = Catalog(QuickDatabase(path))
    catalog.open()
    return catalog


def open_postgres_catalog(url: str) -> Catalog:
    """Open a catalogue that splits values from their fourth byte on, so that many values of the examples are split."""
    from wrapper.catalog.postgres.database import PostgresDatabase

    catalog = Catalog(PostgresDatabase(f"{url}%20-csynchronous_commit%3Doff", value_bytes=3))
    catalog.open()
    return catalog


class CatalogCollections:
    """Makes collections, each with a name of its own."""

    def __init__(self, catalog: Catalog, numbers: Iterator[int]) -> None:
        self._catalog = catalog
        self._numbers = numbers

    def __call__(self, documents: list[ModelDocument], metric: str = "cosine") -> str:
        name = f"example-{next(self._numbers)}"

        def fill(transaction: Transaction) -> Any:
            collection_writes.create_collection(transaction, name, {}, metric)
            if documents:
                writes.add_documents(transaction, name, to_batch(documents))

        self._catalog.commit(fill)
        return name
