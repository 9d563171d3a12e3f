"""Whether what is stored agrees with itself: the catalogue's tables with each other, and the engine with them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from schemas.metadata import without_reserved
from tests.properties.model import ModelCollection
from wrapper.catalog.values import flatten
from wrapper.catalog.words import heading_of, identifier_words

FTS_TABLE = (
    "CREATE VIRTUAL TABLE {name} USING fts5"
    "(heading, text, identifiers, content='', tokenize=\"porter unicode61 remove_diacritics 2\")"
)


def check_tables(path: Path) -> None:
    """Every table of a catalogue holds exactly what its documents say."""
    with closing(sqlite3.connect(path)) as connection:
        collections = connection.execute("SELECT key, name, count, dimension FROM collections").fetchall()
        documents = connection.execute("SELECT position, collection_key, id, text, metadata FROM documents").fetchall()
        vectors = dict(connection.execute("SELECT position, length(vector) FROM embeddings"))
        fields = set(connection.execute("SELECT position, path, value, collection_key FROM document_fields"))
        expected_fields = {
            (position, path, value, key)
            for position, key, _, _, metadata in documents
            for path, values in flatten(json.loads(metadata)).items()
            for value in values
        }
        assert fields == expected_fields
        assert set(vectors) == {position for position, *_ in documents}
        assert {key for _, key, *_ in documents} <= {key for key, *_ in collections}
        tables = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        assert {name for (name,) in connection.execute(tables)} == {f"words_{key}" for key, *_ in collections}
        for key, _name, counted, dimension in collections:
            mine = [
                (position, heading_of(json.loads(metadata)), text)
                for position, owner, _, text, metadata in documents
                if owner == key
            ]
            assert counted == len(mine)
            assert {vectors[position] for position, _, _ in mine} <= {4 * (dimension or 0)}
            connection.execute(f"INSERT INTO words_{key} (words_{key}) VALUES ('integrity-check')")
            assert _words(connection, f"words_{key}") == _rebuilt_words(mine)
        connection.rollback()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def catalog_state(path: Path) -> dict[str, Any]:
    """All collections by name, their documents in order, spelt so that two states compare with `==`."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            name: (
                json.loads(metadata),
                metric,
                dimension,
                [
                    _document(document_id, text, json.loads(its_metadata), np.frombuffer(vector, dtype="<f4"))
                    for document_id, text, its_metadata, vector in connection.execute(
                        "SELECT d.id, d.text, d.metadata, e.vector FROM documents d JOIN embeddings e "
                        "ON e.position = d.position WHERE d.collection_key = ? ORDER BY d.position",
                        (key,),
                    )
                ],
            )
            for key, name, metadata, metric, dimension in connection.execute(
                "SELECT key, name, metadata, metric, dimension FROM collections"
            ).fetchall()
        }


def model_state(model: dict[str, ModelCollection]) -> dict[str, Any]:
    """The same of a model."""
    return {
        name: (
            collection.metadata,
            collection.metric,
            collection.dimension,
            [_document(each.id, each.text, each.metadata, each.embedding) for each in collection.documents],
        )
        for name, collection in model.items()
    }


def check_engine(path: Path, engine: Any) -> None:
    """The engine holds the catalogue's collections, all of each and nothing else."""
    with closing(sqlite3.connect(path)) as connection:
        engine_ids = dict(connection.execute("SELECT name, engine_id FROM collections"))
        assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
        states = {state for (state,) in connection.execute("SELECT index_state FROM collections")}
        assert states <= {"ready"}, states
    held = {each.name: each for each in engine.list_collections()}
    assert {name: each.id for name, each in held.items()} == engine_ids
    for name, (metadata, metric, _, documents) in catalog_state(path).items():
        assert (without_reserved(held[name].metadata), held[name].metric) == (metadata, metric)
        records = engine.get(held[name].id, include=("documents", "metadatas", "embeddings"))
        found = zip(records.ids, records.texts, records.metadatas, records.embeddings, strict=True)
        in_engine = {record[0]: _document(*record) for record in found}
        in_catalog = {document[0]: document for document in documents}
        assert {each: document[1:3] for each, document in in_engine.items()} == {
            each: document[1:3] for each, document in in_catalog.items()
        }
        for each, (_, _, _, vector) in in_catalog.items():
            # Chroma normalises vectors and multiplies them again: the last bit is not the same.
            assert np.allclose(in_engine[each][3], vector, rtol=1e-6, atol=1e-7)


def _document(document_id: str, text: str, metadata: dict[str, Any], vector: np.ndarray) -> tuple[Any, ...]:
    return document_id, text, json.dumps(metadata, sort_keys=True), np.asarray(vector, dtype="<f4").tolist()


def _words(connection: sqlite3.Connection, table: str) -> set[tuple[Any, ...]]:
    connection.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, '{table}', 'instance')")
    try:
        return set(connection.execute("SELECT term, doc, col, offset FROM temp.vocabulary"))
    finally:
        connection.execute("DROP TABLE temp.vocabulary")


def _rebuilt_words(documents: list[tuple[int, str, str]]) -> set[tuple[Any, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(FTS_TABLE.format(name="words"))
        connection.executemany(
            "INSERT INTO words (rowid, heading, text, identifiers) VALUES (?, ?, ?, ?)",
            [(*each, identifier_words("\n".join(each[1:]))) for each in documents],
        )
        return _words(connection, "words")
