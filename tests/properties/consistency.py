"""Checks that stored data are consistent: the catalogue's tables with each other, and the engine with them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from providers.contract_tests.model import ModelCollection
from schemas.metadata import without_reserved
from schemas.words.stems import Stemmer
from wrapper.catalog.contract import WordRow
from wrapper.catalog.sortable_values import flatten
from wrapper.catalog.texts.signatures import COLUMNS, signature
from wrapper.catalog.words.index import segment_of
from wrapper.catalog.words.segments import FIELDS, Block, Layout, Segment, decoded, joined, merge
from wrapper.catalog.words.splitting import word_row

STEMMER = Stemmer()


def check_tables(path: Path) -> None:
    """Assert that every table of a catalogue holds exactly what its documents say."""
    with closing(sqlite3.connect(path)) as connection:
        collections = connection.execute("SELECT key, name, count, dimension, metadata FROM collections").fetchall()
        documents = connection.execute(
            "SELECT position, collection_key, id, text, metadata FROM documents ORDER BY position"
        ).fetchall()
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
        signatures = connection.execute(f"SELECT collection_key, position, {', '.join(COLUMNS)} FROM text_signatures")
        assert {(key, position): bits for key, position, *bits in signatures} == {
            (key, position): signature(text) for position, key, _, text, _ in documents
        }
        assert {key for _, key, *_ in documents} <= {key for key, *_ in collections}
        segments = "SELECT DISTINCT collection_key FROM word_segments UNION SELECT collection_key FROM word_removals"
        assert {key for (key,) in connection.execute(segments)} <= {key for key, *_ in collections}
        blocks = "SELECT count(*) FROM word_blocks WHERE segment NOT IN (SELECT number FROM word_segments)"
        assert connection.execute(blocks).fetchone() == (0,)
        for key, _name, counted, dimension, of_collection in collections:
            mine = [
                word_row(position, text, json.loads(metadata), json.loads(of_collection))
                for position, owner, _, text, metadata in documents
                if owner == key
            ]
            assert counted == len(mine)
            assert {vectors[row.position] for row in mine} <= {4 * (dimension or 0)}
            assert _indexed_words(connection, key) == [(*_words_of(row), row.position) for row in mine]
        connection.rollback()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def catalog_state(path: Path) -> dict[str, Any]:
    """Return all collections by name, their documents in order, spelt so that two states compare with `==`."""
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
    """Return a model's collections in the form of `catalog_state`."""
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
    """Assert that the engine holds the catalogue's collections, all of each and nothing else."""
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
            # Chroma normalises vectors and scales them back, so the last bit may differ.
            assert np.allclose(in_engine[each][3], vector, rtol=1e-6, atol=1e-7)


def _document(document_id: str, text: str, metadata: dict[str, Any], vector: np.ndarray) -> tuple[Any, ...]:
    return document_id, text, json.dumps(metadata, sort_keys=True), np.asarray(vector, dtype="<f4").tolist()


def _indexed_words(connection: sqlite3.Connection, collection_key: int) -> list[tuple[Any, ...]]:
    """Return (terms, their occurrences by field and place, position) of each document that has not been removed."""
    rows = connection.execute(
        "SELECT s.number, s.positions, s.lengths, s.clean_to FROM word_segments s WHERE s.collection_key = ?",
        (collection_key,),
    ).fetchall()
    removals = dict(
        connection.execute("SELECT position, moment FROM word_removals WHERE collection_key = ?", (collection_key,))
    )
    found = []
    for number, positions, lengths, clean_to in rows:
        layout = Layout(np.frombuffer(positions, dtype="<i8"), np.frombuffer(lengths, dtype="<u4").reshape(-1, FIELDS))
        stored = connection.execute(
            "SELECT first_term, terms, content FROM word_blocks WHERE segment = ? ORDER BY first_term", (number,)
        )
        segment = joined(layout, [decoded(Block(*block)) for block in stored])
        whole = merge([(segment, None)])
        for place, position in enumerate(layout.positions.tolist()):
            if removals.get(position, 0) <= clean_to:
                alone = np.arange(len(layout.positions)) == place
                found.append((*_comparable(merge([(whole, alone)])), position))
    return sorted(found, key=lambda document: document[-1])


def _words_of(row: WordRow) -> tuple[Any, ...]:
    return _comparable(segment_of([row], STEMMER))


def _comparable(segment: Segment) -> tuple[Any, ...]:
    lengths = segment.layout.lengths.tolist()
    return segment.terms, segment.counts.tolist(), segment.occurrences.tolist(), lengths
