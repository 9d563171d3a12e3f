"""Searches, the findings of their oracles, and their answers (contract *search*)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schemas.access.owners import NOBODY_KNOWN, Asker
from schemas.bounds import DEFAULT_RESULTS
from schemas.errors import InvalidInputError
from schemas.records import GatherSpec, Group, Metadata, SearchPlan, Vector
from schemas.where import EVERYTHING, Where

ASKED, LEFT_OUT = "asked", "left_out"
IS_EMPTY = "it is empty"
HOLDS_NOTES = "it holds notes of sessions, which the oracle persona asks"
NO_TEXTS = "it does not say which model made its embeddings (embedding_model of its metadata)"
OK, FAILED, UNAVAILABLE = "ok", "failed", "unavailable"
MAX_QUERY_CHARACTERS = 2_000
_SENTENCE_END = re.compile(r"[.!?…]\s|[。！？\n]")
MAX_WEIGHT = 1_000_000.0
MAX_PER_DOCUMENT = 3
"""The most hits of one document, where a request says nothing else."""


class InvalidQueryError(InvalidInputError):
    """The text to search with is empty, too long or not Unicode."""

    code = "invalid_query"


def check_query(query: str) -> str:
    """Return the query itself. Raises InvalidQueryError when it is not valid."""
    check_text(query)
    if len(query) > MAX_QUERY_CHARACTERS:
        sentence = f"query has {len(query)} characters, at most {MAX_QUERY_CHARACTERS} are allowed"
        raise InvalidQueryError(sentence, field="query", limit=MAX_QUERY_CHARACTERS)
    return query


def check_text(query: str) -> None:
    """Check a query of any length. Raises InvalidQueryError when it is not valid."""
    if not isinstance(query, str):
        raise InvalidQueryError("query must be a string", field="query")
    if not query.strip():
        raise InvalidQueryError("query is empty: there is nothing to search with", field="query")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise InvalidQueryError("query is not valid Unicode", field="query") from None


def searchable(text: str) -> str:
    """Return what is asked of a text of any length: of a longer one its first and last sentences, where questions
    are."""
    if len(text) <= MAX_QUERY_CHARACTERS:
        return text
    half = MAX_QUERY_CHARACTERS // 2
    first, last = text[: half - 1], text[-half:]
    ends = [each.end() for each in _SENTENCE_END.finditer(first)] or [first.rfind(" ")]
    begins = [each.end() for each in _SENTENCE_END.finditer(last)] or [last.find(" ") + 1]
    if ends[-1] > half // 2:
        first = first[: ends[-1]]
    if begins[0] < half // 2:
        last = last[begins[0] :]
    return f"{first.strip()}\n{last.strip()}"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search. Of a long `query` what is `searchable` is asked.

    By default `oracles` are the service's own, `collections` (names and `prefix*`) are all text collections, and an
    oracle missing in `weights` weighs 1. `explain` asks why documents are not among the results: True for all that were
    cut, or ids of documents. Only notes that `asker` sees are found. `fusion` is one of `FUSIONS`.

    Hits whose relevance is below `min_relevance` are left out. By default that is the least of the embedding model, and
    a hit that has all words of the question is not left out. `rerank` is a connection that puts the best hits in
    another order.

    Of one document there are at most `max_per_document` hits; with None as many as `MAX_PER_DOCUMENT`, unless no other
    document has any. `by_passage` each passage counts as a document of its own. Neighbours are one hit if the request
    `joins` them. An answer is given within `limit_seconds`, by default the service's. With `cached_for`
    the same question has the same answer for some minutes, as long as the collections stay the same, among all requests
    that say the same there.
    """

    query: str
    limit: int = DEFAULT_RESULTS
    oracles: tuple[str, ...] | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    collections: tuple[str, ...] | None = None
    where: Where = EVERYTHING
    explain: bool | tuple[str, ...] = False
    gather: GatherSpec | None = None
    asker: Asker = NOBODY_KNOWN
    fusion: str | None = None
    min_relevance: float | None = None
    rerank: str | None = None
    max_per_document: int | None = None
    by_passage: bool = False
    joins: bool = True
    limit_seconds: float | None = None
    cached_for: str | None = None


@dataclass(frozen=True, slots=True)
class OracleResult:
    """One finding of an oracle.

    `doc_id` is the document that the chunk belongs to. `chunk_id` is the id it is stored under, the same where
    documents are whole. `score` is in [0, 1] and compares results of one oracle only. `cosine` is that of the vectors
    of question and chunk, None where nobody compared them. `vector` is the chunk's, where it was at hand.
    """

    doc_id: str
    collection: str
    chunk_id: str
    content: str
    score: float
    metadata: Metadata
    cosine: float | None = None
    measured: float | None = None
    vector: Vector | None = field(default=None, compare=False, repr=False)

    @property
    def strength(self) -> float:
        """What the oracle measured: `score`, unless that is a form of it which fits into [0, 1]."""
        return self.score if self.measured is None else self.measured


@dataclass(frozen=True, slots=True)
class OracleAnswer:
    """The results, best first, in `left_out` the collections that could not be asked, each with the reason, and in
    `plans` how those were searched whose provider tells it."""

    results: list[OracleResult]
    left_out: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, SearchPlan] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The place of a document in an oracle's results; `rank` counts documents from 1."""

    rank: int
    score: float


@dataclass(slots=True)
class FusedResult:
    """A passage of a document: its best chunk, or another one beside it. It changes only while it is ranked.

    `rrf_score` is the plain sum of reciprocal ranks. `score` is in [0, 1] and compares results of one answer only:
    without smoothing, 1 means the best of every oracle that answered. `relevance` compares across questions, and
    `cosine` is that of the vectors of question and chunk; each is None where nobody can tell. `rerank_score` is that of
    a reranking connection, which compares within one answer only; None where none was asked about the passage.
    `sources` are the keys of `provenance`. Where neighbours were joined, `content` is the text of all of them, and
    `chunk_ids` are theirs in the order of the document; it is empty for a single chunk.
    """

    doc_id: str
    collection: str
    chunk_id: str
    content: str
    score: float
    rrf_score: float
    sources: tuple[str, ...]
    provenance: Mapping[str, Provenance]
    metadata: Metadata
    relevance: float | None = None
    rerank_score: float | None = None
    cosine: float | None = None
    chunk_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OracleReceipt:
    """A record of how one oracle was asked.

    `status` is ok, failed or unavailable. `count` is the number of documents it found. `error` is the reason of a
    failure; `left_out` has the reasons for single collections, and `plans` how collections were searched by their
    vectors.
    """

    status: str
    count: int
    latency_ms: float
    error: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, SearchPlan] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectionsReceipt:
    """A record of which collections were asked, in that order, and why others were not; `unnamed` counts those left out
    beyond the ones that are named."""

    asked: tuple[str, ...]
    left_out: Mapping[str, str]
    unnamed: int = 0

    @property
    def missed(self) -> dict[str, str]:
        """Return those left out, with the reasons, in which there might be an answer that the caller asked for.

        Which say no model are not text collections, of which alone a question is asked that does not name them in
        full: they count where nothing else was asked.
        """
        unmissed = (IS_EMPTY, HOLDS_NOTES, *([NO_TEXTS] if self.asked else []))
        return {name: reason for name, reason in self.left_out.items() if reason not in unmissed}

    def with_asked(self, names: Sequence[str]) -> CollectionsReceipt:
        """Return a receipt that counts these among the asked ones."""
        left_out = {name: reason for name, reason in self.left_out.items() if name not in names}
        return CollectionsReceipt(tuple(dict.fromkeys((*self.asked, *names))), left_out, self.unnamed)

    def without(self, left_out: Mapping[str, str]) -> CollectionsReceipt:
        """Return a receipt that counts these, which could not be asked after all, among those left out."""
        asked = tuple(name for name in self.asked if name not in left_out)
        return CollectionsReceipt(asked, {**left_out, **self.left_out}, self.unnamed)


@dataclass(frozen=True, slots=True)
class RerankReceipt:
    """A record of how a connection put the best `count` results in another order. `status` is ok or failed; after a
    failure, of which `error` is the reason, the results are in the order that they had before. An order without the
    results that the model refused is ok, and `error` names the first of them."""

    connection: str
    status: str
    count: int
    latency_ms: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SearchReceipt:
    """A record of how a search was answered; `fetched` is the number of documents that each oracle was asked for.

    `compared_by` says what candidates were compared by to smooth their scores, None when they were not smoothed.
    `min_relevance` is None when no hit's relevance was known; `below_min_relevance` counts the candidates left out by
    it. `max_per_document` is None where hits of one document were not counted, and `held_back` counts the passages that
    it kept from being hits. `rerank` is None unless a connection was asked for another order. `indexed` counts the
    passages of all collections that were asked, and `embedding_latency_ms` is None when the question was not embedded.
    `asked_text` is None where the whole question was asked, and else what of it was (`searchable`).
    """

    oracles: Mapping[str, OracleReceipt]
    rrf_k: int
    fetch_multiplier: int
    fetched: int
    weights: Mapping[str, float]
    collections: CollectionsReceipt
    fusion: str
    compared_by: str | None = None
    min_relevance: float | None = None
    below_min_relevance: int = 0
    rerank: RerankReceipt | None = None
    max_per_document: int | None = None
    held_back: int = 0
    indexed: int = 0
    embedding_latency_ms: float | None = None
    asked_text: str | None = None

    @property
    def is_short(self) -> bool:
        """Whether there might be an answer where an oracle, or none at all, could ask."""
        failed = any(each.status == FAILED or each.left_out for each in self.oracles.values())
        return failed or bool(self.collections.missed)


@dataclass(frozen=True, slots=True)
class OracleVerdict:
    """One oracle's verdict on a document: its place there, or the `reason` why it has none."""

    provenance: Provenance | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason why a document is, or is not, among the results.

    `rank` is its place after fusion, None when no oracle found it. `collection` is None when no collection has it.
    """

    doc_id: str
    collection: str | None
    rank: int | None
    rrf_score: float | None
    reason: str
    oracles: Mapping[str, OracleVerdict]


@dataclass(frozen=True, slots=True)
class SearchedGroup:
    """A whole group that the results brought along, and its collection."""

    collection: str
    group: Group


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer to a search; `groups` and `explanations` are None unless asked for. `id` is another one for each
    answer, and the same as long as it `is_cached`."""

    results: list[FusedResult]
    receipt: SearchReceipt
    groups: list[SearchedGroup] | None = None
    explanations: list[Explanation] | None = None
    id: str = ""
    is_cached: bool = False
