"""What SQLite and PostgreSQL spell differently. All else is one SQL text that both understand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from wrapper.catalog.transaction import Sql, Transaction


class WordRow(NamedTuple):
    """What the word index holds of a document: `heading` are the words above its `text`, `tags` those beside it."""

    position: int
    heading: str
    text: str
    tags: str


FieldRow = tuple[int, str, bytes, int]
"""A document's position, a path, a value as sortable bytes (`wrapper/catalog/values.py`) and the collection's key."""


class TextIndex(Protocol):
    """The words of each collection's documents."""

    def create(self, transaction: Transaction, collection_key: int) -> None: ...

    def drop(self, transaction: Transaction, collection_key: int) -> None: ...

    def add(self, transaction: Transaction, collection_key: int, rows: list[WordRow]) -> None: ...

    def remove(self, transaction: Transaction, collection_key: int, rows: list[WordRow]) -> None:
        """Take documents out again, given with the words they came with."""

    def search(self, collection_key: int, query: str) -> Sql | None:
        """`SELECT position, score` of the documents with any word of any user's text, higher is better; None when the
        text has no word."""


class Dialect(Protocol):
    bytes_type: str

    @property
    def text_index(self) -> TextIndex: ...

    def one_of(self, column: str, values: Sequence[int | str]) -> Sql:
        """`column IN values`, however many there are."""

    def with_ids(self, ids: Sequence[str]) -> Sql:
        """The same for the ids of `documents d`."""

    def compared(self, alias: str, operator: str, value: bytes) -> Sql:
        """Whether the value of a row of `document_fields` is equal to, before or after a value."""

    def among(self, alias: str, values: Sequence[bytes]) -> Sql:
        """Whether it is one of these values."""

    def whole_value(self, transaction: Transaction, collection_key: int, path: str, alias: str) -> str:
        """The expression of that value where it is read, grouped by or put in order."""

    def insert_fields(self, transaction: Transaction, rows: Sequence[FieldRow]) -> None: ...
