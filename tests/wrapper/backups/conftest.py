"""Data directories with a catalogue, and their backups."""

import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from schemas.records import DocumentBatch
from schemas.settings import WrapperSettings
from wrapper.backups.making import opened_maker
from wrapper.backups.manifest import Reason
from wrapper.backups.restoring import restore
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog_choice import catalog_access
from wrapper.catalogue_mark import mark
from wrapper.secret_key import KeyFile

KEY = bytes(range(32))
ORIGINAL = "11111111-2222-3333-4444-555555555555-" + "a" * 64
BOTH = pytest.mark.parametrize("new_place", ["sqlite", "postgresql"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("new_place", ["postgresql"], indirect=True)
"""Catalogues are in files unless a test says otherwise: where what it checks is done otherwise by a database."""


def listing(folder):
    """Return all files below a folder with their content, but for locks."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock" and not path.name.startswith("catalog.sqlite-")
    }


class Place:
    """A data directory with its catalogue."""

    def __init__(self, settings):
        self.settings = settings
        self.data_dir = settings.data_dir

    def opened(self):
        catalog = Catalog(catalog_access(self.settings).database)
        catalog.open()
        return closing(catalog)

    def fill(self, ids, collection="library"):
        """Store documents of these ids, with a text that holds what is hard to carry."""
        with self.opened() as catalog:
            rows = catalog.read()
            with rows as transaction:
                known = transaction.row("SELECT 1 FROM collections WHERE name = ?", (collection,))
            if known is None:
                catalog.commit(
                    lambda transaction: collection_writes.create_collection(transaction, collection, {}, "cosine")
                )
            batch = DocumentBatch(
                ids=list(ids),
                texts=[f"text of {each}: \0 \1 \\N \t \n é 🦉" for each in ids],
                metadatas=[{"number": at, "long": "x" * 700, "of": each} for at, each in enumerate(ids)],
                embeddings=np.asarray([[1.0, at, 0.5] for at in range(len(ids))], dtype="<f4"),
            )
            catalog.commit(lambda transaction: writes.add_documents(transaction, collection, batch))
            mark(self.data_dir, catalog)

    def rows(self):
        """Return all documents with their vectors and fields."""
        with self.opened() as catalog, catalog.read() as transaction:
            documents = transaction.rows(
                "SELECT d.position, d.id, d.text, d.metadata, e.vector FROM documents d "
                "JOIN embeddings e ON e.position = d.position ORDER BY d.position"
            )
            fields = transaction.rows(
                "SELECT position, path, value FROM document_fields ORDER BY position, path, value"
            )
            identity = transaction.value("SELECT uuid FROM identity")
            return documents, fields, identity

    def write(self, name, content):
        path = self.data_dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def back_up(self, folder, *, key=None, whole=True):
        """Make a backup in the folder, and return its file."""
        folder.mkdir(exist_ok=True)
        with opened_maker(self.settings, key) as maker:
            target = maker.new_target(folder, Reason.ASKED if whole else Reason.MIGRATION)
            maker.make(target, Reason.ASKED if whole else Reason.MIGRATION, whole=whole)
        return target

    def restore(self, file, key=None, *, replace=False):
        with file.open("rb") as opened:
            return restore(opened, self.settings, key, replace=replace)


@pytest.fixture(params=["sqlite"])
def new_place(request, tmp_path):
    """`new_place(name)` makes an empty data directory, on PostgreSQL with an empty database."""
    with ExitStack() as stack:

        def make(name):
            url = ""
            if request.param == "postgresql":
                url = stack.enter_context(request.getfixturevalue("postgres").catalogue(empty=True))
            return Place(WrapperSettings(data_dir=tmp_path / name, catalog_url=url, disk_floor_mb=1))

        yield make


@pytest.fixture
def place(new_place):
    """A data directory with three documents, an original, an upload, an audit log, and things that are in no backup."""
    place = new_place("data")
    place.data_dir.mkdir()
    place.fill(["a", "b", "c"])
    KeyFile(place.data_dir).make()
    place.write(f"originals/c0ffee/{ORIGINAL}", b"%PDF original")
    place.write("originals/c0ffee/not an original", b"?")
    place.write(f"uploads/{'ab' * 16}/1", b"waits")
    place.write("uploads/home", b"home-id")
    place.write(f"files/{'cd' * 16}/0", b"is kept")
    place.write("audit/audit-2026-11-25-0001.jsonl", b'{"time":"2026-11-25T00:00:00.000Z"}\n')
    place.write("audit/audit.lock", b"")
    place.write("chroma/chroma.sqlite3", b"index")
    place.write("engine.log", b"log")
    return place


@pytest.fixture
def another_disk(tmp_path):
    """A folder on another disk than the temporary one."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)
