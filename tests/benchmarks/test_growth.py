"""The growth benchmark goes on where it ended: its documents and its filters are the same whatever the largest size is."""

import random

import numpy as np
import pytest

from benchmarks.growth.documents import GrowingCorpus

PART = range(9_990, 10_010)


@pytest.fixture(scope="module")
def corpus():
    return GrowingCorpus(30_000, 4, 5)


def test_a_document_is_the_same_however_many_there_are(corpus):
    smaller = GrowingCorpus(10_500, 4, 5)
    assert np.array_equal(smaller.embeddings[PART], corpus.embeddings[PART])
    assert np.array_equal(smaller.queries[4].embedding, corpus.queries[4].embedding)
    assert (smaller.texts(PART), smaller.metadatas(PART)) == (corpus.texts(PART), corpus.metadatas(PART))


@pytest.mark.parametrize("size", [10_000, 30_000])
def test_filters_match_as_many_as_they_say(corpus, size):
    spread = [each["spread"] for each in corpus.metadatas(range(size))]
    generator = random.Random(1)
    for _ in range(20):
        low, high = corpus.matching(1_000, size, generator)
        ends = low["spread"]["$gte"], high["spread"]["$lt"]
        assert sum(ends[0] <= each < ends[1] for each in spread) == pytest.approx(1_000, abs=5)
    assert len(corpus.in_share(0.1, size)) == sum(each < 0.1 for each in spread) == pytest.approx(size / 10, abs=5)
    assert sum(each["half"] for each in corpus.metadatas(range(size))) == pytest.approx(size / 2, abs=5)


def test_recall_counts_what_is_nearest_among_those_of_the_size(corpus):
    size, queries = 10_000, corpus.queries
    similarities = corpus.embeddings @ np.stack([each.embedding for each in queries]).T
    nearest = [corpus.ids(np.argsort(-each[:size])[:10].tolist()) for each in similarities.T]
    assert corpus.recall(queries, nearest, size, half=False) == 1.0
    assert corpus.recall(queries, [each[:5] for each in nearest], size, half=False) == 0.5
    beyond = [corpus.ids(np.argsort(-each)[:10].tolist()) for each in similarities.T]
    assert corpus.recall(queries, beyond, size, half=False) < 1.0
