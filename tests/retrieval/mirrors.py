"""Two stores in memory, one a copy of the other, that change, break off and forget."""

from contextlib import contextmanager

import orjson

from retrieval.mirroring import Mirror
from schemas.errors import CollectionNotFoundError, GoneError, InvalidInputError, UnavailableError
from schemas.storage.reembedding import MIRRORED, EmbeddingModelDiffersError

URL = "http://there:5006"


class Source:
    """One collection that tells its changes as a service does, `at_once` documents in an answer. An answer is cut off
    after `cut_after` lines."""

    def __init__(self, metric="cosine"):
        self.id, self.metric, self.metadata = "s1", metric, {"language": "en"}
        self.revision, self.documents, self.deleted = 1, {}, {}
        self.known_since, self.at_once, self.cut_after, self.is_there = 0, 1000, None, True
        self.asked = []

    def put(self, document_id, text, dimension=2):
        self.revision += 1
        self.deleted.pop(document_id, None)
        self.documents[document_id] = (self.revision, text, "A" * dimension)

    def delete(self, *ids):
        self.revision += 1
        for each in ids:
            del self.documents[each]
            self.deleted[each] = self.revision

    def switch(self, model, component):
        """Have the vectors of another model."""
        self.metadata = {"embedding_model": model}
        for each, (_, text, embedding) in list(self.documents.items()):
            self.revision += 1
            self.documents[each] = (self.revision, text, component * len(embedding))
        self.forget()

    def forget(self):
        self.deleted, self.known_since = {}, self.revision

    def collection(self, name):
        if not self.is_there:
            raise CollectionNotFoundError(name)
        return {"id": self.id, "metric": self.metric, "metadata": self.metadata, "count": len(self.documents)}

    @contextmanager
    def changes(self, name, place, *, embedding_model, wait_seconds=0):
        self.collection(name)
        recorded = self.metadata.get("embedding_model")
        if embedding_model != (recorded or ""):
            raise EmbeddingModelDiffersError(name, stored=recorded, given=embedding_model)
        self.asked.append((place.get("next", 0), wait_seconds))
        since = place.get("next", 0)
        base = place.get("as_of") or since or self.revision
        if base < self.known_since or place.get("history", self.id) != self.id:
            raise GoneError("What was deleted is not known any more", code="too_old")
        yield self._lines(since, base)

    def _lines(self, since, base):
        told = [
            {"op": "upsert", "revision": at, "id": each, "text": text, "metadata": {}, "embedding": embedding}
            for each, (at, text, embedding) in self.documents.items()
            if at > since
        ]
        told += [{"op": "delete", "revision": at, "id": each} for each, at in self.deleted.items() if at > base]
        told.sort(key=lambda change: change["revision"])
        part = told[: self.at_once]
        if self.cut_after is not None:
            yield from part[: self.cut_after]
            raise UnavailableError("The changes broke off before their last line")
        yield from part
        come_to = part[-1]["revision"] if len(part) < len(told) else self.revision
        as_of = {"as_of": base} if come_to < base else {}
        yield {"next": come_to, **as_of, "history": self.id, "more": len(part) < len(told)}


class Target:
    """Collections by name: {id, metric, metadata, documents}. The next `fails` calls that write documents fail."""

    def __init__(self):
        self.collections, self.fails = {}, 0

    def make(self, name, metric="cosine", metadata=None, **documents):
        self.collections[name] = {"id": f"own {name}", "metric": metric, "metadata": metadata or {}}
        self.collections[name]["documents"] = {each: (text, "AA") for each, text in documents.items()}

    def collection(self, name):
        if name not in self.collections:
            raise CollectionNotFoundError(name)
        found = self.collections[name]
        return {**found, "count": len(found["documents"])}

    def ensure_collection(self, name, metadata, *, metric=None):
        if name not in self.collections:
            self.make(name, metric, metadata)
            return {"status": "created", "name": name}
        return self.collection(name)

    def replace_metadata(self, name, metadata):
        self.collections[name]["metadata"] = metadata

    def add_lines(self, name, lines):
        self._may_fail()
        documents = self.collections[name]["documents"]
        done = {"created": 0, "updated": 0, "unchanged": 0}
        for line in map(orjson.loads, lines):
            assert set(line) == {"id", "text", "metadata", "embedding"}
            if any(len(line["embedding"]) != len(embedding) for _, embedding in documents.values()):
                raise InvalidInputError("Embedding dimension mismatch", code="dimension_mismatch")
            new = line["text"], line["embedding"]
            before = documents.get(line["id"])
            done["created" if before is None else "unchanged" if before == new else "updated"] += 1
            documents[line["id"]] = new
        return done

    def delete_documents(self, name, *, ids):
        self._may_fail()
        documents = self.collections[name]["documents"]
        return sum(documents.pop(each, None) is not None for each in ids)

    def empty_collection(self, name):
        documents = self.collections[name]["documents"]
        count = len(documents)
        documents.clear()
        return {"count_deleted": count}

    def documents(self, name, *, include=()):
        assert include == ["id"]
        for each in list(self.collections[name]["documents"]):
            yield {"id": each}

    def _may_fail(self):
        if self.fails:
            self.fails -= 1
            raise UnavailableError("not now")


def filled_source():
    source = Source()
    for each in "abc":
        source.put(each, f"text of {each}")
    return source


def mirror_of(source, target):
    return Mirror(source, URL, "library", target, "copy")


def caught_up(mirror):
    """Take steps until there is no more to be done; those that fail in passing are taken again."""
    for _ in range(100):
        try:
            if not mirror.step().more:
                return
        except UnavailableError:
            pass
    raise AssertionError("the mirror does not come to an end")


def assert_equal(source, target):
    stored = target.collections["copy"]["documents"]
    assert stored == {each: (text, embedding) for each, (_, text, embedding) in source.documents.items()}
    metadata = dict(target.collections["copy"]["metadata"])
    mark = metadata.pop(MIRRORED)
    assert metadata == {key: value for key, value in source.metadata.items() if key != MIRRORED}
    assert (mark["next"], mark["id"]) == (source.revision, source.id)
