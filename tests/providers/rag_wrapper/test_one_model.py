"""Vectors that are read of a collection while others write to it, or re-embed it."""

import numpy as np
import pytest

from providers.rag_wrapper.one_model import ATTEMPTS, of_one_model
from schemas.connections import CollectionInfo
from schemas.records import Document
from schemas.storage.reembedding import ReembeddedMeanwhileError

DOCUMENT = Document("a", "A", "{}", 0, np.ones(2, np.float32))


def described(revision, model="older"):
    return CollectionInfo("docs", 1, {"embedding_model": model}, "cosine", 2, revision)


@pytest.mark.parametrize("writes", range(ATTEMPTS))
def test_they_are_read_again_when_something_was_written_meanwhile(writes):
    reads, descriptions = iter(range(5)), iter([*range(1, 1 + writes), writes])
    read = lambda: ([DOCUMENT], next(reads))  # noqa: E731
    [found] = of_one_model("older", read, lambda: described(next(descriptions)))
    assert found is DOCUMENT


def test_of_a_collection_that_is_always_written_to_the_documents_come_without():
    revisions = iter(range(100))
    [found] = of_one_model("older", lambda: ([DOCUMENT], next(revisions)), lambda: described(next(revisions)))
    assert (found.id, found.embedding) == ("a", None)


@pytest.mark.parametrize("model", ["newer", None])
def test_they_are_refused_when_they_are_of_another_model(model):
    with pytest.raises(ReembeddedMeanwhileError):
        of_one_model("older", lambda: ([DOCUMENT], 1), lambda: described(1, model))
