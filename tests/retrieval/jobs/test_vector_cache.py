"""Vectors of files that are tried again, within a bound of memory."""

import numpy as np

from retrieval.jobs import vector_cache
from retrieval.jobs.vector_cache import VectorCache


def test_files_begun_longest_ago_are_forgotten_however_long_the_vectors_of_each_are(monkeypatch):
    monkeypatch.setattr(vector_cache, "MAX_BYTES", 100)
    cache, asked = VectorCache(), []

    def embed(name, dimension):
        def ask(texts):
            asked.append(name)
            return np.ones((len(texts), dimension), np.float32)

        cache.embed((name, 0), None, ["text"], ask, lambda: None, tries=0)

    for name, dimension in (("long", 24), ("short", 1), ("long", 24), ("more", 1), ("long", 24), ("short", 1)):
        embed(name, dimension)
    assert asked == ["long", "short", "more", "short"]
