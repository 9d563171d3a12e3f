"""What the candidates of a search are worth: how like each other they are, and how relevant to the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import structlog

from providers.base import SupportsMetadataFiltering
from registry.embedding.queries import EmbeddingMismatchError, QueryEmbedding
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.corpus import OpenCorpus
from retrieval.search.relevance import AllWords, WordsFound
from retrieval.search.smoothing import SMOOTHED, Similarities, WordSimilarity, cosines, smoothed
from schemas.contracts.search import FusedResult, OracleResult
from schemas.errors import RagError
from schemas.records import Vector
from schemas.storage.reembedding import recorded_model

log = structlog.get_logger(__name__)

BY_VECTORS_AND_WORDS, BY_WORDS = "vectors and words", "words"


@dataclass(frozen=True)
class Candidates:
    """The best results of a fusion with the vectors of the chunks they show, None where there is none to compare."""

    results: Sequence[FusedResult]
    vectors: Sequence[Vector | None]

    @classmethod
    def read(
        cls,
        corpus: OpenCorpus,
        fused: Sequence[FusedResult],
        found_by: Iterable[Sequence[OracleResult]],
        asked: Mapping[str, QueryEmbedding],
    ) -> Candidates:
        """Read the vectors of the first results that came without one, those of each collection at once.

        Vectors of another model than the question's are left out, and those that cannot be read: the results are an
        answer without them. `found_by` are the results of the oracles, `asked` has the question for each collection.
        """
        first = fused[:SMOOTHED]
        found = {
            (each.collection, each.chunk_id): each.vector
            for results in found_by
            for each in results
            if each.vector is not None
        }
        if corpus.can(SupportsMetadataFiltering):
            missing = [each for each in first if (each.collection, each.chunk_id) not in found]
            for name in dict.fromkeys(each.collection for each in missing):
                if name in asked and not _fits(asked[name], corpus, name):
                    continue
                ids = [each.chunk_id for each in missing if each.collection == name]
                try:
                    stored = corpus.able(SupportsMetadataFiltering).documents_by_id(name, ids, with_embeddings=True)
                    # Asked after they were read: the collection may have been given those of another model meanwhile.
                    if not corpus.keeps_model(name):
                        continue
                except RagError as error:
                    log.warning("vectors cannot be read", collection=name, reason=error.message)
                    continue
                found |= {(name, each.id): each.embedding for each in stored if each.embedding is not None}
        return cls(first, [found.get((each.collection, each.chunk_id)) for each in first])

    def smoothed(self, corpus: OpenCorpus, words: WordSimilarity) -> tuple[Sequence[float], str]:
        """Return the smoothed scores of the results, and what they were compared by."""
        if not self.results:
            return [], BY_WORDS
        similar = words.of(self.texts)
        by_vectors = self._cosines(corpus)
        if by_vectors is not None:
            similar = (similar + by_vectors) * np.float32(0.5)
        scores: list[float] = smoothed([each.score for each in self.results], similar).tolist()
        return scores, BY_WORDS if by_vectors is None else BY_VECTORS_AND_WORDS

    def relevances(self, asked: Mapping[str, QueryEmbedding], words: WordsFound) -> list[float | None]:
        """Return the relevance of each result, None of one without a vector, or of a collection without a question.

        The nearest by each model is as relevant as the answer is; of the others each goes by the words that it has
        itself.
        """
        places: dict[str, list[int]] = {}
        for place, (result, vector) in enumerate(zip(self.results, self.vectors, strict=True)):
            if vector is not None and result.collection in asked:
                places.setdefault(asked[result.collection].model, []).append(place)
        found: list[float | None] = [None] * len(self.results)
        for of_model in places.values():
            question = asked[self.results[of_model[0]].collection]
            vectors = [vector for place in of_model if (vector := self.vectors[place]) is not None]
            cosines = _cosines_to(question.vector, np.stack(vectors))
            for place, cosine in zip(of_model, cosines, strict=True):
                share = words.share if cosine == max(cosines) else words.share_with(self.texts[place])
                found[place] = question.connection.relevance(cosine, share)
        return found

    @cached_property
    def texts(self) -> list[str]:
        """The texts of the results, each below its heading."""
        return [text_with_heading(each.content, each.metadata) for each in self.results]

    def judged(
        self, scores: Sequence[float] | None, relevances: Sequence[float | None] | None
    ) -> Sequence[FusedResult]:
        """Return the results with these relevances, and with these scores in their order; with None for either, as they
        were."""
        judged = [
            each.judged(score, relevance)
            for each, score, relevance in zip(
                self.results,
                scores or [each.score for each in self.results],
                relevances or [None] * len(self.results),
                strict=True,
            )
        ]
        if scores is None:
            return judged
        return sorted(judged, key=lambda each: (-each.score, -each.rrf_score, each.doc_id, each.collection))

    def _cosines(self, corpus: OpenCorpus) -> Similarities | None:
        """Return the cosines between all results, None unless all have vectors of one model."""
        infos = corpus.existing([each.collection for each in self.results])
        models = {model for info in infos if (model := recorded_model(info.metadata)) is not None}
        vectors = [vector for vector in self.vectors if vector is not None]
        if len(models) > 1 or len(vectors) < len(self.vectors) or len({len(vector) for vector in vectors}) != 1:
            return None
        return cosines(vectors)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least relevance of a hit, where its collection has none of its own. One that has `words`, those of the
    question, is above it."""

    least: float
    words: AllWords | None = None
    of_collections: Mapping[str, float] = field(default_factory=dict)

    def passes(self, result: FusedResult) -> bool:
        """Return whether the result may be given. One whose relevance is unknown may."""
        if result.relevance is None or result.relevance >= self.of_collections.get(result.collection, self.least):
            return True
        return self.words is not None and self.words.are_in(text_with_heading(result.content, result.metadata))


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
