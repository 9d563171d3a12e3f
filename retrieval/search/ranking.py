"""Ranks what the oracles of a search have found: fuses it, smooths it, judges how relevant it is to the question, and
has the best reranked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import structlog

from providers.base import SupportsMetadataFiltering
from providers.outbound import deadlines
from registry.embedding.queries import EmbeddingMismatchError, QueryEmbedding
from retrieval.ingest.drafts import text_with_heading
from retrieval.search.asking import Found, Plan
from retrieval.search.corpus import OpenCorpus
from retrieval.search.fusion import Fusion, PassageKey, in_order, key_of, passage_of
from retrieval.search.oracles.base import COSINE
from retrieval.search.relevance import ComparedTexts, WordsFound
from retrieval.search.reranking import RERANKED, Reranking
from retrieval.search.smoothing import SMOOTHED as SMOOTHED_FIRST
from retrieval.search.smoothing import WordSimilarity, cosine, cosines, smoothed
from schemas.contracts.search import MAX_PER_DOCUMENT, FusedResult, OracleResult, SearchRequest
from schemas.errors import RagError
from schemas.records import Vector
from schemas.settings import RetrievalSettings
from schemas.storage.reembedding import recorded_model
from schemas.ways import RRF, SMOOTHED

log = structlog.get_logger(__name__)

BY_VECTORS_AND_WORDS, BY_WORDS = "vectors and words", "words"


class Ranker:
    """Ranks the findings of searches; safe for use by several threads. `measures` are what the oracles measure. Where
    neither a request nor the settings say how relevant hits must be, the embedding model does."""

    def __init__(self, measures: Mapping[str, str], reranking: Reranking, settings: RetrievalSettings) -> None:
        self._measures = measures
        self._reranking = reranking
        self._settings = settings
        self._words = WordSimilarity()
        self._compared = ComparedTexts()

    def rank(self, plan: Plan, found: Found) -> None:
        """Order what the oracles found, judge its relevance where that can be told, and have the best reranked."""
        with deadlines.within(max(0.0, plan.until - time.monotonic())):
            fusion = self._fusion(plan, found)
            fused = fusion.results()
            asked = self._embeddings_of(plan, fused[:SMOOTHED_FIRST])
            vectors = PassageVectors(plan.question.corpus, found.rankings.values(), asked)
            found.candidates = found.passing = self._in_order(fusion, fused, vectors, plan, found)
            if asked:
                nearest = next((each for name, each in found.rankings.items() if self._measures[name] == COSINE), fused)
                words = WordsFound.of(plan.question.text, nearest, self._compared)
                least = self._least(plan.request, asked)
                spares = plan.request.min_relevance is None
                found.passing = judge(found.candidates, vectors, asked, words, least, spares=spares)
                found.min_relevance = next(iter(least.values()))
        found.max_per_document = self._most_of_document(plan.request, found)
        if plan.reranker is not None:
            best, found.reranked = self._reranking.reordered(
                plan.reranker, plan.question.text, found.passing, plan.until - time.monotonic()
            )
            found.reorder(best)

    def _fusion(self, plan: Plan, found: Found) -> Fusion:
        documents = {key_of(each) for results in found.rankings.values() for each in results}
        is_by_passage = plan.request.by_passage or len(documents) == 1
        return Fusion(
            found.rankings,
            fusion=found.fusion,
            k=self._settings.rrf_k,
            weights=plan.weights,
            measures=self._measures,
            unit=passage_of if is_by_passage else key_of,
        )

    def _in_order(
        self, fusion: Fusion, fused: list[FusedResult], vectors: PassageVectors, plan: Plan, found: Found
    ) -> list[FusedResult]:
        """Return all candidates, best first: the first documents smoothed if asked to, with further passages of those
        that may be hits. Of equal ones the best passage of a document comes before further ones of another."""
        first, rest = fused[:SMOOTHED_FIRST], fused[SMOOTHED_FIRST:]
        if found.fusion == SMOOTHED:
            first, found.compared_by = smooth(first, vectors.of(first), plan.question.corpus, self._words)
        shown = max(plan.request.limit, RERANKED if plan.reranker else 0)
        others = [other for each in first[:shown] for other in fusion.others(each)]
        by_ranks = found.fusion == RRF
        return [*sorted([*first, *others], key=lambda each: -(each.rrf_score if by_ranks else each.score)), *rest]

    def _most_of_document(self, request: SearchRequest, found: Found) -> int | None:
        if request.by_passage or request.max_per_document is not None:
            return request.max_per_document
        return MAX_PER_DOCUMENT if len({key_of(each) for each in found.passing}) > 1 else None

    def _embeddings_of(self, plan: Plan, first: Sequence[FusedResult]) -> dict[str, QueryEmbedding]:
        """Return the embedded question by collection, as far as a model could read it. Where no oracle wanted it, it is
        embedded only for a request that says how relevant hits must be."""
        found, question, asked = {}, plan.question, plan.question.embeddings
        assert asked is not None
        infos = question.corpus.existing(
            [*(each.name for each in question.collections), *(each.collection for each in first)]
        )
        for info in asked.as_embedded(infos, question.until) if plan.request.min_relevance else infos:
            embedded = asked.made_of(info)
            if plan.request.min_relevance:
                try:
                    embedded = asked.of(info)
                except RagError as error:
                    log.warning("no relevance", collection=info.name, reason=error.message)
            if embedded is not None and embedded.is_readable:
                found[info.name] = embedded
        return found

    def _least(self, request: SearchRequest, asked: Mapping[str, QueryEmbedding]) -> dict[str, float]:
        """Return the least relevance of a hit by its collection."""
        least = self._settings.min_relevance if request.min_relevance is None else request.min_relevance
        return {
            name: (each.connection.min_relevance or 0.0) if least is None else least for name, each in asked.items()
        }


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
        try:
            if collection in self._asked:
                for info in self._corpus.existing([collection]):
                    self._asked[collection].check_fits(info)
            stored = self._corpus.able(SupportsMetadataFiltering).documents_by_id(
                collection, [each.chunk_id for each in passages], with_embeddings=True
            )
            # Asked after they were read: the collection may have been given those of another model meanwhile.
            if not self._corpus.keeps_model(collection):
                return
        except EmbeddingMismatchError:
            return
        except RagError as error:
            log.warning("vectors cannot be read", collection=collection, reason=error.message)
            return
        vectors = {each.id: each.embedding for each in stored}
        self._known |= {passage_of(each): vectors.get(each.chunk_id) for each in passages}


def smooth(
    passages: Sequence[FusedResult], vectors: Sequence[Vector | None], corpus: OpenCorpus, words: WordSimilarity
) -> tuple[list[FusedResult], str]:
    """Give the passages their smoothed scores; return them, best first, and what they were compared by."""
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
    for each, score in zip(passages, smoothed([each.score for each in passages], similar).tolist(), strict=True):
        each.score = score
    return in_order(passages, by_ranks=False), BY_VECTORS_AND_WORDS if has_vectors else BY_WORDS


def judge(
    passages: Sequence[FusedResult],
    vectors: PassageVectors,
    asked: Mapping[str, QueryEmbedding],
    words: WordsFound,
    least: Mapping[str, float],
    *,
    spares: bool,
) -> list[FusedResult]:
    """Give the passages their cosines and their relevance, as far as either can be told, and return those that may be
    given: with the least relevance of their collection, or one that is unknown, or if it `spares` them with all words
    of the question.

    The nearest by each model is as relevant as the answer is; of the others each goes by the words that it has itself.
    """
    missing = [each for each in passages if each.cosine is None and each.collection in asked]
    for passage, vector in zip(missing, vectors.of(missing), strict=True):
        if vector is not None:
            passage.cosine = cosine(vector, asked[passage.collection].vector)
    nearest: dict[str, float] = {}
    for passage in passages:
        if passage.cosine is not None and passage.collection in asked:
            model = asked[passage.collection].model
            nearest[model] = max(passage.cosine, nearest.get(model, passage.cosine))
    passing = []
    for passage in passages:
        question = asked.get(passage.collection)
        if passage.cosine is None or question is None:
            passing.append(passage)
            continue
        share, has_all = words.found_in(text_of(passage))
        if passage.cosine == nearest[question.model]:
            share = words.share
        passage.relevance = question.connection.relevance(passage.cosine, share)
        if passage.relevance >= least[passage.collection] or (spares and has_all):
            passing.append(passage)
    return passing


def text_of(passage: FusedResult) -> str:
    """Return the text of a passage below its heading."""
    return text_with_heading(passage.content, passage.metadata)
