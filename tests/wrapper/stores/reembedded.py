"""A collection that is re-embedded part by part, by a process that may die."""

from itertools import count

import numpy as np

from schemas.records import DocumentBatch, DocumentPatch, Extras
from schemas.storage.erasure_count import count_erasure
from schemas.where import EVERYTHING
from wrapper.catalog import document_changes, reads, writes
from wrapper.catalog.changes import tombstones
from wrapper.catalog.names import collection_writes, renaming
from wrapper.catalog.rows import find_collection
from wrapper.stores.reembedding import Reembeddings
from wrapper.writing import Writing

NEW = {"embedding_provider": "stub", "embedding_model": "new", "embedding_connection": "other"}
NEWER = {**NEW, "embedding_model": "newer"}
NAMES = (f"docs-{number}" for number in count())
PATIENCE = 200


class Crash(BaseException):
    """The process died."""


class Mortal:
    """A catalogue whose process dies before or after its commits, at the turns in `dies_at`."""

    def __init__(self, catalog, dies_at=()):
        self._catalog = catalog
        self._turns = count()
        self._dies_at = set(dies_at)

    def die_at(self, turns):
        """Die at these turns, counted from now."""
        now = next(self._turns) + 1
        self._dies_at = {now + each for each in turns}

    def __getattr__(self, name):
        return getattr(self._catalog, name)

    def commit(self, operation):
        self._turn()
        outcome = self._catalog.commit(operation)
        self._turn()
        return outcome

    def _turn(self):
        if next(self._turns) in self._dies_at:
            raise Crash


def embedded(text):
    """Return the new model's vector of a text."""
    return np.array([1.0, len(text), sum(map(ord, text)) % 97], "<f4")


def reembeddings(catalog):
    writing = Writing(
        catalog, None, free_disk_mb=lambda: 1e9, disk_floor_mb=0, write_wait_seconds=0.0, waiting_writers=1
    )
    return Reembeddings(catalog, writing, lambda: True)


class Collection:
    """A collection with vectors of two dimensions, and what re-embeds it."""

    def __init__(self, catalog, dies_at=()):
        self.catalog = Mortal(catalog, dies_at)
        self.name = next(NAMES)
        self.texts = count()
        self.work = self.restarted()
        self._write(lambda transaction: collection_writes.create_collection(transaction, self.name, {"of": 1}, "l2"))

    def restarted(self):
        return reembeddings(self.catalog)

    def _write(self, operation):
        return self.catalog._catalog.commit(operation)

    def add(self, *ids, dimension=2, **fields):
        texts, metadatas = (
            [f"text {next(self.texts)} of {each}" for each in ids],
            [{"id": each, **fields} for each in ids],
        )
        vectors = np.full((len(ids), dimension), 7, "<f4")
        batch = DocumentBatch(list(ids), texts, metadatas, vectors, {0: Extras(uri="u:1")})
        self._write(lambda transaction: writes.add_documents(transaction, self.name, batch))

    def delete(self, *ids):
        self._write(lambda transaction: writes.delete_documents(transaction, self.name, ids=ids))

    def describe(self, *ids):
        """Change metadata alone."""
        patch = {"seen": next(self.texts)}
        self._write(document_changes.patching_metadata(self.name, patch, ids=ids, where=EVERYTHING).store)

    def change(self, document_id):
        if any(each.id == document_id for each in self.documents()):
            patch = DocumentPatch(text=f"changed {next(self.texts)}")
            self._write(lambda transaction: document_changes.patching(self.name, document_id, patch).store(transaction))

    def empty(self):
        self._write(lambda transaction: collection_writes.empty_collection(transaction, self.name))

    def rename(self):
        new = next(NAMES)
        self._write(lambda transaction: renaming.rename(transaction, self.name, new))
        self.name = new

    def erase(self, *ids):
        def operation(transaction):
            count_erasure(transaction)
            collection = find_collection(transaction, self.name)
            writes.delete_documents(transaction, self.name, ids=ids)
            tombstones.erase(transaction, collection.key)

        self._write(operation)

    def step(self, limit=2):
        """Do the next part. Return whether the collection was switched."""
        for name in self.work.under_way():
            part = self.work.next_part(name, limit)
            if part is not None:
                vectors = [embedded(each.text) for each in part.documents]
                if self.work.store(part, np.stack(vectors) if vectors else None):
                    return True
        return False

    def finish(self, **how):
        for _ in range(PATIENCE):
            try:
                if self.step(**how):
                    return
            except Crash:
                self.work = self.restarted()
            if not self.work.under_way():
                return  # it died behind the commit that was the last one
        raise AssertionError("never complete")

    def switch(self):
        """Give all documents vectors of the new model."""
        self.work.begin(self.name, NEW)
        self.finish()

    def collection(self):
        with self.catalog.read() as transaction:
            return find_collection(transaction, self.name)

    def documents(self):
        with self.catalog.read() as transaction:
            source = find_collection(transaction, self.name)
            return [each for block in reads.everything(transaction, source) for each in block]

    def contents(self):
        """Return what the documents are, in order, without their vectors."""
        return [(each.id, each.text, each.metadata, each.extras) for each in self.documents()]

    def check_switched(self, contents):
        assert self.contents() == contents
        for each in self.documents():
            assert each.embedding.tolist() == embedded(each.text).tolist()
