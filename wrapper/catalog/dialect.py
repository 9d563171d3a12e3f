"""What SQLite and PostgreSQL spell differently. All else is one SQL text that both understand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from schemas.records import Collection
from schemas.where import Where
from wrapper.catalog.transaction import Sql, Transaction


class WordRow(NamedTuple):
    """What the word index holds of a document: `heading` are the words above its `text`, `tags` those beside it."""

    position: int
    heading: str
    text: str
    tags: str


FieldRow = tuple[int, str, bytes, int]
"""A document's position, a path, a value as sortable bytes (`wrapper/catalog/values.py`) and the collection's key."""


class Ranked(NamedTuple):
    position: int
    score: float


class TextIndex(Protocol):
    """The words of each collection's documents."""

    def drop(self, transaction: Transaction, collection_key: int) -> None: ...

    def add(self, transaction: Transaction, collection_key: int, rows: Sequence[WordRow]) -> None: ...

    def remove(self, transaction: Transaction, collection_key: int, places: Sequence[int]) -> None:
        """Take documents out again, given by their positions."""

    def best(
        self, transaction: Transaction, collection: Collection, query: str, where: Where, *, limit: int
    ) -> tuple[list[Ranked], int]:
        """(the best `limit` documents with any word of any user's text that match, best first, equals in the order of
        insertion; how many there are). Higher scores are better."""


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
