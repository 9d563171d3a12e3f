"""What the candidates of a search are worth: how like each other they are, and how relevant to the question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import structlog

from providers.base import SupportsMetadataFiltering
from registry.embedding.queries import EmbeddingMismatchError, QueryEmbedding
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.corpus import OpenCorpus
from retrieval.search.fusion import PassageKey, in_order, passage_of
from retrieval.search.relevance import AllWords, WordsFound
from retrieval.search.smoothing import WordSimilarity, cosines, smoothed
from schemas.contracts.search import FusedResult, OracleResult
from schemas.errors import RagError
from schemas.records import Vector
from schemas.storage.reembedding import recorded_model

log = structlog.get_logger(__name__)

BY_VECTORS_AND_WORDS, BY_WORDS = "vectors and words", "words"


class PassageVectors:
    """The vectors of passages: those that came with what the oracles found, the others read when they are wanted.

    `asked` has the question as it was embedded for each collection.
    """

    def __init__(
        self, corpus: OpenCorpus, found_by: Iterable[Sequence[OracleResult]], asked: Mapping[str, QueryEmbedding]
    ) -> None:
        self._corpus = corpus
        self._asked = asked
        self._known: dict[PassageKey, Vector | None] = {
            passage_of(each): each.vector for results in found_by for each in results if each.vector is not None
        }

    def of(self, passages: Sequence[FusedResult]) -> list[Vector | None]:
        """Return the vector of each passage, None of one that has none to compare: of another model than the question,
        or one that cannot be read."""
        if self._corpus.can(SupportsMetadataFiltering):
            missing = [each for each in passages if passage_of(each) not in self._known]
            for name in dict.fromkeys(each.collection for each in missing):
                self._read(name, [each for each in missing if each.collection == name])
        return [self._known.get(passage_of(each)) for each in passages]

    def _read(self, collection: str, passages: Sequence[FusedResult]) -> None:
        self._known |= dict.fromkeys(map(passage_of, passages))
        if collection in self._asked and not _fits(self._asked[collection], self._corpus, collection):
            return
        try:
            stored = self._corpus.able(SupportsMetadataFiltering).documents_by_id(
                collection, [each.chunk_id for each in passages], with_embeddings=True
            )
            # Asked after they were read: the collection may have been given those of another model meanwhile.
            if not self._corpus.keeps_model(collection):
                return
        except RagError as error:
            log.warning("vectors cannot be read", collection=collection, reason=error.message)
            return
        vectors = {each.id: each.embedding for each in stored}
        self._known |= {passage_of(each): vectors.get(each.chunk_id) for each in passages}


def smooth(
    passages: Sequence[FusedResult], vectors: Sequence[Vector | None], corpus: OpenCorpus, words: WordSimilarity
) -> tuple[list[FusedResult], str]:
    """Return the passages by their smoothed scores, best first, and what they were compared by."""
    if not passages:
        return [], BY_WORDS
    similar = words.of([text_of(each) for each in passages])
    known = [vector for vector in vectors if vector is not None]
    models = {recorded_model(info.metadata) for info in corpus.existing([each.collection for each in passages])}
    has_vectors = (
        len(known) == len(passages) and len({len(vector) for vector in known}) == 1 and len(models - {None}) < 2
    )
    if has_vectors:
        similar = (similar + cosines(known)) * np.float32(0.5)
    scores = smoothed([each.score for each in passages], similar).tolist()
    judged = [each.judged(score, None, each.cosine) for each, score in zip(passages, scores, strict=True)]
    return in_order(judged, by_ranks=False), BY_VECTORS_AND_WORDS if has_vectors else BY_WORDS


def with_relevance(
    passages: Sequence[FusedResult], vectors: PassageVectors, asked: Mapping[str, QueryEmbedding], words: WordsFound
) -> list[FusedResult]:
    """Return the passages with their cosines and their relevance, as far as either can be told.

    The nearest by each model is as relevant as the answer is; of the others each goes by the words that it has itself.
    """
    missing = [each for each in passages if each.cosine is None and each.collection in asked]
    read = dict(zip(map(passage_of, missing), vectors.of(missing), strict=True))
    known = [_cosine(each, read.get(passage_of(each)), asked.get(each.collection)) for each in passages]
    nearest: dict[str, float] = {}
    for passage, cosine in zip(passages, known, strict=True):
        if cosine is not None and passage.collection in asked:
            model = asked[passage.collection].model
            nearest[model] = max(cosine, nearest.get(model, cosine))

    def judged(passage: FusedResult, cosine: float | None) -> FusedResult:
        question = asked.get(passage.collection)
        if cosine is None or question is None:
            return passage.judged(passage.score, None, cosine)
        share = words.share if cosine == nearest[question.model] else words.share_with(text_of(passage))
        return passage.judged(passage.score, question.connection.relevance(cosine, share), cosine)

    return [judged(passage, cosine) for passage, cosine in zip(passages, known, strict=True)]


def text_of(passage: FusedResult | OracleResult) -> str:
    """Return the text of a passage below its heading."""
    return text_with_heading(passage.content, passage.metadata)


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
        return self.words is not None and self.words.are_in(text_of(result))


def _fits(asked: QueryEmbedding, corpus: OpenCorpus, collection: str) -> bool:
    try:
        for info in corpus.existing([collection]):
            asked.check_fits(info)
    except EmbeddingMismatchError:
        return False
    return True


def _cosine(passage: FusedResult, vector: Vector | None, asked: QueryEmbedding | None) -> float | None:
    """Return the cosine of a passage and the question, 0 for a vector without a direction, None where it is unknown."""
    if passage.cosine is not None or vector is None or asked is None:
        return passage.cosine
    lengths = float(np.linalg.norm(vector)) * float(np.linalg.norm(asked.vector))
    return float(vector @ asked.vector) / lengths if lengths else 0.0
