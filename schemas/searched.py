"""What a search is asked, what its oracles find, and what it answers (seed 004)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.errors import InvalidInputError
from schemas.owners import OPEN
from schemas.records import GatherSpec, Group, Metadata

ASKED, LEFT_OUT = "asked", "left_out"
OK, FAILED, UNAVAILABLE = "ok", "failed", "unavailable"
MAX_QUERY_CHARACTERS = 2_000
MAX_LIMIT = 100
DEFAULT_LIMIT = 10


class InvalidQueryError(InvalidInputError):
    """The text to search with is empty, too long or not Unicode."""

    code = "invalid_query"


def check_query(query: str) -> str:
    """The query itself. Raises InvalidQueryError."""
    if not isinstance(query, str):
        raise InvalidQueryError("query must be a string", field="query")
    if not query.strip():
        raise InvalidQueryError("query is empty: there is nothing to search with", field="query")
    if len(query) > MAX_QUERY_CHARACTERS:
        sentence = f"query has {len(query)} characters, at most {MAX_QUERY_CHARACTERS} are allowed"
        raise InvalidQueryError(sentence, field="query", limit=MAX_QUERY_CHARACTERS)
    try:
        query.encode()
    except UnicodeEncodeError:
        raise InvalidQueryError("query is not valid Unicode", field="query") from None
    return query


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """`oracles` None stands for the service's own, `collections` (names and `prefix*`) for all text collections,
    `weights` for 1 where they name no oracle. `explain` asks why documents are not among the results: True for all that
    were cut, or by their ids. `owner` is who asks: of notes only theirs are found."""

    query: str
    limit: int = DEFAULT_LIMIT
    oracles: tuple[str, ...] | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    collections: tuple[str, ...] | None = None
    where: dict[str, Any] | None = None
    explain: bool | tuple[str, ...] = False
    gather: GatherSpec | None = None
    owner: str = OPEN


@dataclass(frozen=True, slots=True)
class OracleResult:
    """What an oracle finds. `doc_id` is the document that a chunk is of, `chunk_id` the id it is stored under (the same
    where documents are whole); `score` is in [0, 1] and compares results of one oracle only."""

    doc_id: str
    collection: str
    chunk_id: str
    content: str
    score: float
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class OracleAnswer:
    """Results best first. `left_out`: the collections that could not be asked, each with the reason."""

    results: list[OracleResult]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an oracle had a document: `rank` counts documents from 1."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class FusedResult:
    """A document with its best chunk. `rrf_score` is the sum of reciprocal ranks as it is, `score` the same in [0, 1],
    where 1 is first with every oracle that answered; `sources` are the keys of `provenance`."""

    doc_id: str
    collection: str
    chunk_id: str
    content: str
    score: float
    rrf_score: float
    sources: tuple[str, ...]
    provenance: Mapping[str, Provenance]
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class OracleReceipt:
    """How one oracle was asked. `status` is ok, failed or unavailable; `count` the documents it found; `error` the
    reason of a failure, `left_out` the same for single collections."""

    status: str
    count: int
    latency_ms: float
    error: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectionsReceipt:
    """Which collections were asked, in that order, and why others were not; `unnamed` counts those that were left out
    and are too many to be named."""

    asked: tuple[str, ...]
    left_out: Mapping[str, str]
    unnamed: int = 0

    def with_asked(self, names: Sequence[str]) -> CollectionsReceipt:
        """With these among those asked."""
        left_out = {name: reason for name, reason in self.left_out.items() if name not in names}
        return CollectionsReceipt(tuple(dict.fromkeys((*self.asked, *names))), left_out, self.unnamed)

    def without(self, left_out: Mapping[str, str]) -> CollectionsReceipt:
        """With these, which could not be asked after all, among those that were left out."""
        asked = tuple(name for name in self.asked if name not in left_out)
        return CollectionsReceipt(asked, {**left_out, **self.left_out}, self.unnamed)


@dataclass(frozen=True, slots=True)
class SearchReceipt:
    """The way taken. `fetched` is what each oracle was asked for."""

    oracles: Mapping[str, OracleReceipt]
    rrf_k: int
    fetch_multiplier: int
    fetched: int
    weights: Mapping[str, float]
    collections: CollectionsReceipt


@dataclass(frozen=True, slots=True)
class OracleVerdict:
    """What one oracle had to say of a document: where it had it, or the `reason` why it had it nowhere."""

    provenance: Provenance | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document is, or is not, among the results. `rank` is its place after fusion, None when no oracle found it;
    `collection` None when it is in none."""

    doc_id: str
    collection: str | None
    rank: int | None
    rrf_score: float | None
    reason: str
    oracles: Mapping[str, OracleVerdict]


@dataclass(frozen=True, slots=True)
class SearchedGroup:
    """A whole group that results brought with them, and the collection it is from."""

    collection: str
    group: Group


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """`groups` and `explanations` are None unless asked for."""

    results: list[FusedResult]
    receipt: SearchReceipt
    groups: list[SearchedGroup] | None = None
    explanations: list[Explanation] | None = None
