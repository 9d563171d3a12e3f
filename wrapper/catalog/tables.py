"""The catalogue's tables. Vectors have a table of their own so that pages of documents stay small.

`documents.position` is drawn from one counter, never reused, and orders documents by first insertion.
`documents.revision` is the one of the collection that last wrote the document; a deleted document leaves a tombstone
(`wrapper/catalog/changes/tombstones.py`). `document_fields`
holds every filterable value twice: by document (residual conditions, order, facets) and by value (the covering index
behind `where`). On PostgreSQL, whose indexes have no room for long values, it holds them in two parts
(`wrapper/catalog/postgres/transaction.py`). Words are in segments
(`wrapper/catalog/words/index.py`), parts of words in signatures (`wrapper/catalog/texts/signatures.py`).
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    TEXT,
    VARCHAR,
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
    event,
    func,
    literal_column,
)

from wrapper.catalog.texts.signatures import COLUMNS

ID_CHARACTERS = 256
"""The characters of an id that PostgreSQL's index of ids holds."""

FULL_NAME_CHARACTERS = 1540
"""The characters of a collection's name with those of a tenant and a database."""

metadata = MetaData()
sqlite_metadata = MetaData()
postgres_metadata = MetaData()

WHOLE = BigInteger().with_variant(Integer(), "sqlite")
"""The type of whole numbers. SQLite treats a primary key of type INTEGER as the row's own number."""
TEXTS = Text().with_variant(TEXT(collation="C"), "postgresql")


def _string(characters: int) -> String:
    return String(characters).with_variant(VARCHAR(characters, collation="C"), "postgresql")


def _key(name: str) -> Column[int]:
    """Return a primary key that is given, not counted by the database."""
    return Column(name, WHOLE, primary_key=True, autoincrement=False)


counters = Table(
    "counters",
    metadata,
    Column("name", _string(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

collections = Table(
    "collections",
    metadata,
    _key("key"),
    Column("id", _string(36)),
    Column("name", _string(FULL_NAME_CHARACTERS), nullable=False, unique=True),
    Column("metadata", TEXTS, nullable=False),
    Column("metric", _string(8), nullable=False),
    Column("dimension", Integer),
    Column("revision", BigInteger, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("engine_id", _string(64)),
    Column("index_state", _string(16), nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Column("engine_name", _string(512)),
    Column("configuration", TEXTS),
    Column("deletions_since", BigInteger, nullable=False, server_default="0"),
    Column("engine_records", _string(8)),
    Index("collections_by_engine_name", "engine_name", unique=True),
    Index("collections_by_id", "id", unique=True),
)

tenants = Table("tenants", metadata, Column("name", _string(512), primary_key=True))

databases = Table(
    "databases",
    metadata,
    Column("tenant", _string(512), primary_key=True),
    Column("name", _string(512), primary_key=True),
    Column("id", _string(36), nullable=False),
    sqlite_with_rowid=False,
)

aliases = Table(
    "aliases",
    metadata,
    Column("alias", _string(FULL_NAME_CHARACTERS), primary_key=True),
    Column("collection_key", WHOLE, nullable=False),
    Index("aliases_by_collection", "collection_key"),
    sqlite_with_rowid=False,
)

documents = Table(
    "documents",
    metadata,
    _key("position"),
    Column("collection_key", ForeignKey("collections.key"), nullable=False),
    Column("id", TEXTS, nullable=False),
    Column("text", TEXTS, nullable=False),
    Column("metadata", TEXTS, nullable=False),
    Column("extras", TEXTS),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("collection_key", "id", name="documents_by_id").ddl_if(dialect="sqlite"),
    Index("documents_in_order", "collection_key", "position"),
    Index("documents_by_revision", "collection_key", "revision", "position"),
)
Index(
    "documents_by_id_head", documents.c.collection_key, func.left(documents.c.id, literal_column(str(ID_CHARACTERS)))
).ddl_if(dialect="postgresql")

tombstones = Table(
    "tombstones",
    metadata,
    _key("position"),
    Column("collection_key", WHOLE, nullable=False),
    Column("id", TEXTS),
    Column("revision", BigInteger, nullable=False),
    Column("deleted_at_seconds", Float, nullable=False),
    Index("tombstones_by_id", "collection_key", "id").ddl_if(dialect="sqlite"),
    Index("tombstones_by_revision", "collection_key", "revision", "position"),
    Index("tombstones_by_age", "deleted_at_seconds"),
)
Index(
    "tombstones_by_id_head", tombstones.c.collection_key, func.left(tombstones.c.id, literal_column(str(ID_CHARACTERS)))
).ddl_if(dialect="postgresql")

embeddings = Table(
    "embeddings",
    metadata,
    _key("position"),
    Column("vector", LargeBinary, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    _key("id"),
    Column("collection_key", WHOLE, nullable=False),
    Column("kind", _string(16), nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("documents", WHOLE),
    Index("outbox_sizes", "collection_key", "id", "documents"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", _string(255), primary_key=True),
    Column("collection_key", WHOLE),
    Column("request_digest", _string(64), nullable=False),
    Column("outbox_id", WHOLE),
    Column("outcome", LargeBinary, nullable=False),
    Column("created_at_seconds", BigInteger, nullable=False),
    Index("idempotency_keys_by_age", "created_at_seconds"),
    Index("idempotency_keys_by_collection", "collection_key"),
    sqlite_with_rowid=False,
)

index_reports = Table(
    "index_reports",
    metadata,
    _key("collection_key"),
    Column("checked_at_seconds", Float),
    Column("documents_held", BigInteger),
    Column("index_bytes", BigInteger),
    Column("fault", TEXTS),
    Column("recall_at_10", Float),
    Column("filtered_recall_at_10", Float),
    Column("recall_at_seconds", Float),
    Column("candidates", Integer),
    Column("search_width", Integer),
    Column("rebuild_reason", TEXTS),
    Column("documents_rebuilt", BigInteger, nullable=False),
    Column("rebuilds", Integer, nullable=False),
)

adoptions = Table(
    "adoptions",
    metadata,
    _key("collection_key"),
    Column("documents", BigInteger, nullable=False),
    Column("left_out", BigInteger, nullable=False),
)

set_aside = Table(
    "set_aside",
    metadata,
    _key("position"),
    Column("collection_key", WHOLE, nullable=False),
    Column("reason", TEXTS, nullable=False),
    Column("since_seconds", Float, nullable=False),
    Column("up_to_entry", BigInteger, nullable=False),
    Column("engine", TEXTS, nullable=False),
    Index("set_aside_by_collection", "collection_key"),
)

standstills = Table(
    "standstills",
    metadata,
    _key("collection_key"),
    Column("reason", TEXTS, nullable=False),
    Column("since_seconds", Float, nullable=False),
)

identity = Table("identity", metadata, Column("uuid", _string(36), nullable=False))

histories = Table("histories", metadata, Column("id", _string(36), nullable=False))
"""Has the one row that tells this history of revisions from others: a restored catalogue begins another one."""

cursor_keys = Table("cursor_keys", metadata, Column("key", LargeBinary, nullable=False))

words_to_index = Table(
    "words_to_index",
    metadata,
    _key("collection_key"),
    Column("done_to", BigInteger, nullable=False),
)

word_segments = Table(
    "word_segments",
    metadata,
    _key("number"),
    Column("collection_key", WHOLE, nullable=False),
    Column("language", _string(8), nullable=False),
    Column("clean_to", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("words", BigInteger, nullable=False),
    Column("positions", LargeBinary, nullable=False),
    Column("lengths", LargeBinary, nullable=False),
    Index("word_segments_by_collection", "collection_key", "number"),
)

word_blocks = Table(
    "word_blocks",
    metadata,
    Column("segment", WHOLE, nullable=False),
    Column("first_term", TEXTS, nullable=False),
    Column("terms", TEXTS, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("word_blocks_by_term", "segment", "first_term"),
)

word_removals = Table(
    "word_removals",
    metadata,
    _key("collection_key"),
    _key("position"),
    Column("moment", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

text_signatures = Table(
    "text_signatures",
    metadata,
    _key("collection_key"),
    _key("position"),
    *(Column(name, BigInteger, nullable=False) for name in COLUMNS),
    sqlite_with_rowid=False,
)

Table(
    "document_fields",
    sqlite_metadata,
    _key("position"),
    Column("path", Text, primary_key=True),
    Column("value", LargeBinary, primary_key=True),
    Column("collection_key", Integer, nullable=False),
    Index("document_fields_by_value", "collection_key", "path", "value", "position"),
    sqlite_with_rowid=False,
)

document_fields = Table(
    "document_fields",
    postgres_metadata,
    Column("position", BigInteger, nullable=False),
    Column("path", TEXT(collation="C"), nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("rest", LargeBinary, nullable=False),
    Column("collection_key", BigInteger, nullable=False),
    Index("document_fields_by_document", "position", "path", "value"),
    Index("document_fields_by_value", "collection_key", "path", "value", "position"),
)
# As text: to check the condition of an `Index`, SQLAlchemy imports all that it has for PostgreSQL.
IN_PARTS = "CREATE INDEX document_fields_in_parts ON document_fields (collection_key, path) WHERE rest <> ''"
event.listen(document_fields, "after_create", DDL(IN_PARTS))
