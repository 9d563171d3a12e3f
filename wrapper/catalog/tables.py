"""The catalogue's tables. Vectors have a table of their own so that pages of documents stay small.

`documents.position` is drawn from one counter, never reused, and orders documents by first insertion.
`document_fields` holds every filterable value twice: by document (its primary key: residual conditions, order,
facets) and by value (the covering index behind `where`). The text index is one table a collection, made by the
dialect (`sqlite.py`), so that word statistics are the collection's own and dropping it is cheap.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

collections = Table(
    "collections",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("name", String(512), nullable=False, unique=True),
    Column("metadata", Text, nullable=False),
    Column("metric", String(8), nullable=False),
    Column("dimension", Integer),
    Column("revision", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("engine_id", String(64)),
    Column("index_state", String(16), nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("position", Integer, primary_key=True),
    Column("collection_key", ForeignKey("collections.key"), nullable=False),
    Column("id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    UniqueConstraint("collection_key", "id", name="documents_by_id"),
    Index("documents_in_order", "collection_key", "position"),
)

embeddings = Table(
    "embeddings",
    metadata,
    Column("position", Integer, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)

document_fields = Table(
    "document_fields",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("path", Text, primary_key=True),
    Column("value", LargeBinary, primary_key=True),
    Column("collection_key", Integer, nullable=False),
    Index("document_fields_by_value", "collection_key", "path", "value", "position"),
    sqlite_with_rowid=False,
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("collection_key", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Index("outbox_by_collection", "collection_key", "id"),
)

adoptions = Table(
    "adoptions",
    metadata,
    Column("collection_key", Integer, primary_key=True, autoincrement=False),
    Column("documents", BigInteger, nullable=False),
    Column("left_out", BigInteger, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("collection_key", Integer),
    Column("request_digest", String(64), nullable=False),
    Column("outbox_id", Integer),
    Column("answer", LargeBinary, nullable=False),
    Column("created_at_seconds", BigInteger, nullable=False),
    Index("idempotency_keys_by_age", "created_at_seconds"),
    Index("idempotency_keys_by_collection", "collection_key"),
    sqlite_with_rowid=False,
)

index_reports = Table(
    "index_reports",
    metadata,
    Column("collection_key", Integer, primary_key=True, autoincrement=False),
    Column("checked_at_seconds", Float),
    Column("documents_held", BigInteger),
    Column("index_bytes", BigInteger),
    Column("fault", Text),
    Column("recall_at_10", Float),
    Column("recall_at_seconds", Float),
    Column("rebuild_reason", Text),
    Column("documents_rebuilt", BigInteger, nullable=False),
    Column("rebuilds", Integer, nullable=False),
)
