"""Streams that are cut, and collections that change during an export."""

from contextlib import contextmanager

import pytest

from interfaces.commands.work.collection_files import (
    ATTEMPTS,
    MANIFEST,
    export_collections,
    import_collections,
    read_manifest,
)
from schemas.errors import InvalidInputError, UnavailableError
from schemas.metadata import check_reserved
from schemas.storage.reembedding import EmbeddingModelDiffersError, recorded_model

LINES = [b'{"id":"a","embedding":"AACAPwAAAAA="}\n', b'{"id":"b","embedding":"AACAPwAAAAA="}\n']


class Store:
    """One collection, whose stream is cut `cuts` times and whose metadata change `changes` times."""

    def __init__(self, cuts=0, changes=0, error=None, names=("docs",)):
        self.cuts, self.changes, self.error, self.names = cuts, changes, error, names
        self.version = 0

    def collections_everywhere(self):
        return [self.collection(name) for name in self.names]

    def collection(self, name):
        return {"name": name, "metadata": {"version": self.version}, "metric": "cosine", "dimension": 2}

    @contextmanager
    def export(self, name):
        if self.changes:
            self.changes -= 1
            self.version += 1
        yield 2, self._pieces()

    def _pieces(self):
        yield LINES[0]
        if self.cuts:
            self.cuts -= 1
            if self.error:
                raise self.error
            return
        yield LINES[1]


@pytest.mark.parametrize("error", [None, UnavailableError("cut")])
def test_a_stream_that_is_cut_is_read_again_and_metadata_are_those_of_the_exported_documents(tmp_path, error):
    (entry,) = export_collections(Store(cuts=2, error=error), tmp_path)
    assert (entry.count, entry.dimension) == (2, 2)
    assert (tmp_path / "docs.ndjson").read_bytes() == b"".join(LINES)
    assert read_manifest(tmp_path) == [entry]
    (entry,) = export_collections(Store(changes=1), tmp_path / "again")
    assert entry.metadata == {"version": 1}


@pytest.mark.parametrize("error", [None, UnavailableError("cut")])
def test_an_export_that_cannot_be_whole_leaves_nothing(tmp_path, error):
    with pytest.raises(UnavailableError, match="docs"):
        export_collections(Store(cuts=ATTEMPTS, error=error), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_each_allowed_name_has_a_file_of_its_own_on_any_file_system(tmp_path):
    long = f"/{'a' * 512}" * 2
    names = ["plain", "Docs", "docs", long[2:512] + "b", long[2:512] + "c", f"{long}/one", f"{long}/One", "d" * 242]
    entries = export_collections(Store(names=names), tmp_path)
    assert read_manifest(tmp_path) == entries
    assert ([each.name for each in entries], len({each.file.lower() for each in entries})) == (names, len(names))
    assert (entries[0].file, entries[-1].file) == ("plain.ndjson", f"{names[-1]}.ndjson")


@pytest.mark.parametrize(
    "manifest",
    [
        "no json",
        "[]",
        '{"format": "rag-wrapper export", "version": 2, "collections": []}',
        '{"format": "rag-wrapper export", "version": 1, "collections": [{"name": "docs"}]}',
        '{"format": "rag-wrapper export", "version": 1, "collections": [{"name": "docs", "file": "../x", "count": 0, '
        '"bytes": 0, "sha256": "", "metric": "l2", "dimension": null, "metadata": {}, "embedding_model": null}]}',
    ],
)
def test_an_invalid_manifest_is_refused(tmp_path, manifest):
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(InvalidInputError):
        import_collections(Store(), tmp_path)


class Importing:
    """A collection of one embedding model, which has another one after `switches_after` batches."""

    def __init__(self, model, switches_after=None):
        self.metadata = {} if model is None else {"embedding_model": model}
        self.switches_after = switches_after
        self.stored = []

    def ensure_collection(self, name, metadata, *, metric=None):
        check_reserved(metadata)
        return {"metadata": dict(self.metadata), "metric": "cosine", "dimension": 2}

    def add_lines(self, name, lines, *, embedding_model=None):
        if self.switches_after == len(self.stored):
            self.metadata["embedding_model"] = "newer"
        recorded = recorded_model(self.metadata)
        if embedding_model is not None and recorded not in (None, embedding_model):
            raise EmbeddingModelDiffersError(name, stored=recorded, given=embedding_model)
        self.stored.append(embedding_model)
        return {"created": len(lines), "updated": 0, "unchanged": 0}

    @contextmanager
    def export(self, name):
        yield 0, iter(())


OF_ANY_SHAPE = {"any": "shape"}
"""What a collection may have for the name of its model, which is none."""


@pytest.mark.parametrize(
    ("recorded", "switches_after", "model", "said", "stored"),
    [
        *(("newer", None, model, "was embedded with 'newer'", []) for model in ("older", None)),
        *((recorded, 1, "older", "not with 'older'", ["older"]) for recorded in ("older", None)),
        (None, 1, None, "nothing says that these vectors were", [""]),
    ],
)
def test_vectors_of_another_model_are_not_imported(exported, recorded, switches_after, model, said, stored):
    store = Importing(recorded, switches_after)
    with pytest.raises(EmbeddingModelDiffersError, match=said):
        import_collections(store, exported(model))
    assert store.stored == stored


def test_vectors_of_a_model_without_a_name_are_imported_where_they_came_from(exported):
    store = Importing(OF_ANY_SHAPE)
    [outcome] = import_collections(store, exported(OF_ANY_SHAPE))
    assert store.stored == ["", ""]
    assert "metadata" not in " ".join(outcome.differences)
