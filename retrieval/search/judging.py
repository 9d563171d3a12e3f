"""What the candidates of a search are worth: how like each other they are, and how relevant to the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import structlog

from providers.base import SupportsMetadataFiltering
from registry.embedding.queries import EmbeddingMismatchError, QueryEmbedding
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.corpus import OpenCorpus
from retrieval.search.relevance import has_all_words
from retrieval.search.smoothing import SMOOTHED, Similarities, WordSimilarity, cosines, smoothed
from schemas.contracts.search import FusedResult
from schemas.errors import RagError
from schemas.records import Vector

log = structlog.get_logger(__name__)

BY_VECTORS_AND_WORDS, BY_WORDS = "vectors and words", "words"


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best results of a fusion with the vectors of the chunks they show, None where there is none to compare."""

    results: Sequence[FusedResult]
    vectors: Sequence[Vector | None]

    @classmethod
    def read(cls, corpus: OpenCorpus, fused: Sequence[FusedResult], asked: QueryEmbedding | None) -> Candidates:
        """Read the vectors of the first results, those of each collection at once.

        Vectors of another model than the question's are left out, and those that cannot be read: the results are an
        answer without them.
        """
        first = fused[:SMOOTHED]
        found: dict[tuple[str, str], Vector] = {}
        if corpus.can(SupportsMetadataFiltering):
            for name in dict.fromkeys(each.collection for each in first):
                if asked is not None and not _fits(asked, corpus, name):
                    continue
                ids = [each.chunk_id for each in first if each.collection == name]
                try:
                    stored = corpus.able(SupportsMetadataFiltering).documents_by_id(name, ids, with_embeddings=True)
                except RagError as error:
                    log.warning("vectors cannot be read", collection=name, reason=error.message)
                    continue
                found |= {(name, each.id): each.embedding for each in stored if each.embedding is not None}
        return cls(first, [found.get((each.collection, each.chunk_id)) for each in first])

    def smoothed(self, corpus: OpenCorpus, words: WordSimilarity) -> tuple[list[FusedResult], str]:
        """Return the results by their smoothed scores, and what they were compared by."""
        if not self.results:
            return [], BY_WORDS
        similar = words.of([text_with_heading(each.content, each.metadata) for each in self.results])
        by_vectors = self._cosines(corpus)
        if by_vectors is not None:
            similar = (similar + by_vectors) * np.float32(0.5)
        scores = smoothed([each.score for each in self.results], similar)
        found = [replace(each, score=float(score)) for each, score in zip(self.results, scores, strict=True)]
        order = sorted(found, key=lambda each: (-each.score, -each.rrf_score, each.doc_id, each.collection))
        return order, BY_WORDS if by_vectors is None else BY_VECTORS_AND_WORDS

    def relevances(self, asked: QueryEmbedding, words_found: float) -> dict[tuple[str, str], float]:
        """Return the relevance by collection and chunk, of those that have a vector."""
        pairs = [(each, vector) for each, vector in zip(self.results, self.vectors, strict=True) if vector is not None]
        if not pairs:
            return {}
        found = _cosines_to(asked.vector, np.stack([vector for _, vector in pairs]))
        return {
            (each.collection, each.chunk_id): asked.connection.relevance(cosine, words_found)
            for (each, _), cosine in zip(pairs, found, strict=True)
        }

    def _cosines(self, corpus: OpenCorpus) -> Similarities | None:
        """Return the cosines between all results, None unless all have vectors of one model."""
        infos = corpus.existing([each.collection for each in self.results])
        models = {model for info in infos if (model := info.metadata.get("embedding_model")) is not None}
        vectors = [vector for vector in self.vectors if vector is not None]
        if len(models) > 1 or len(vectors) < len(self.vectors) or len({len(vector) for vector in vectors}) != 1:
            return None
        return cosines(vectors)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least relevance of a hit. With `words_count`, a hit that has all words of the question is above it."""

    least: float
    words_count: bool

    def passes(self, result: FusedResult, question: str) -> bool:
        """Return whether the result may be given. One whose relevance is unknown may."""
        if result.relevance is None or result.relevance >= self.least:
            return True
        return self.words_count and has_all_words(question, text_with_heading(result.content, result.metadata))


def _fits(asked: QueryEmbedding, corpus: OpenCorpus, collection: str) -> bool:
    try:
        for info in corpus.existing([collection]):
            asked.check_fits(info)
    except EmbeddingMismatchError:
        return False
    return True


def _cosines_to(asked: Vector, vectors: Vector) -> list[float]:
    """Return the cosine of each row of `vectors` to `asked`, 0 for one without a direction."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked)
    products = vectors @ asked
    found: list[float] = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0).tolist()
    return found
