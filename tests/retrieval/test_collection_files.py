"""Streams that are cut, and collections that change during an export."""

from contextlib import contextmanager

import pytest

from retrieval.collection_files import ATTEMPTS, MANIFEST, export_collections, import_collections, read_manifest
from schemas.errors import InvalidInputError, UnavailableError

LINES = [b'{"id":"a","embedding":"AACAPwAAAAA="}\n', b'{"id":"b","embedding":"AACAPwAAAAA="}\n']


class Store:
    """One collection, whose stream is cut `cuts` times and whose metadata change `changes` times."""

    def __init__(self, cuts=0, changes=0, error=None):
        self.cuts, self.changes, self.error = cuts, changes, error
        self.version = 0

    def collections_everywhere(self):
        return [self.collection("docs")]

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
def test_a_stream_that_is_cut_is_read_again(tmp_path, error):
    (entry,) = export_collections(Store(cuts=2, error=error), tmp_path)
    assert (entry.count, entry.dimension) == (2, 2)
    assert (tmp_path / "docs.ndjson").read_bytes() == b"".join(LINES)
    assert read_manifest(tmp_path) == [entry]


def test_metadata_are_those_of_the_exported_documents(tmp_path):
    (entry,) = export_collections(Store(changes=1), tmp_path)
    assert entry.metadata == {"version": 1}


@pytest.mark.parametrize("error", [None, UnavailableError("cut")])
def test_an_export_that_cannot_be_whole_leaves_nothing(tmp_path, error):
    with pytest.raises(UnavailableError, match="docs"):
        export_collections(Store(cuts=ATTEMPTS, error=error), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


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
