"""The values that travel between the parts of the program: frozen, without wire spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from schemas.connections import CollectionInfo

Metadata = dict[str, Any]
Vector = NDArray[np.float32]

METRICS = ("cosine", "l2", "ip")


def version_of(collection_id: str, revision: int) -> str:
    """Return the name of a state of a collection, which no other state of any collection has."""
    return f"{collection_id}.{revision}"


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as the catalogue knows it.

    `key` is the catalogue's own number, never reused there; `id`, a UUID, tells the collection from any other in any
    catalogue, and from a later one of the same name. `dimension` is None until the first document; `revision`
    grows with each write. `engine_id` is the id of its index in the engine, None while there is none; `index_state` is
    `ready`, `pending`, `rebuilding` or `adopting`. `engine_name` is what the engine calls it: its first name, which a
    rename does not change. `configuration` is what a client of Chroma configured, as JSON; `engine_records` is what the
    records of its index have, `full` or `vectors`, None before it has an index. `view` stands for what its reader sees
    of it, empty for everything.
    """

    key: int
    id: str
    name: str
    metadata: Metadata
    metric: str
    dimension: int | None
    revision: int
    count: int
    engine_id: str | None = None
    index_state: str = "pending"
    engine_name: str = ""
    configuration: str | None = None
    engine_records: str | None = None
    view: str = ""

    @property
    def version(self) -> str:
        """The name of this state of this collection as its reader sees it, which no other state of any collection has:
        its `ETag`."""
        return version_of(self.id, self.revision) + (f".{self.view}" if self.view else "")


@dataclass(frozen=True, slots=True)
class Database:
    """A set of collections of one tenant. `id` is a UUID."""

    id: str
    name: str
    tenant: str


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that stands for a collection."""

    name: str
    collection: str


@dataclass(frozen=True, slots=True)
class Extras:
    """What few documents have: a URI, and that their text is none (Chroma's null) and not an empty one."""

    uri: str | None = None
    textless: bool = False


NO_EXTRAS = Extras()


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document. `position` orders documents by first insertion; `embedding` is None unless asked for.

    `metadata_json` is the metadata as it is stored, so that an answer can pass it on without decoding it.
    """

    id: str
    text: str
    metadata_json: str
    position: int
    embedding: Vector | None = None
    extras: Extras = NO_EXTRAS

    @property
    def metadata(self) -> Metadata:
        return cast(Metadata, orjson.loads(self.metadata_json))

    def with_embedding(self, embedding: Vector) -> Document:
        return replace(self, embedding=embedding)


@dataclass(frozen=True, slots=True)
class Change:
    """The newest state of an id: its document, or None when that was deleted; and the revision that made it so."""

    revision: int
    id: str
    document: Document | None


@dataclass(frozen=True, slots=True)
class Since:
    """How far a follower has come: it has what was changed up to `revision`, 0 for nothing, as it was at the revision
    `as_of` or, for what was changed after that, later. `history` is that of the collection it has followed."""

    revision: int = 0
    as_of: int | None = None
    history: str | None = None

    def base(self, collection: Collection) -> int:
        """Return the revision of the collection since which deletions are to be told, the newest one for a follower who
        begins."""
        as_of = self.as_of if self.as_of is not None else self.revision or collection.revision
        return max(as_of, self.revision)


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Documents to store, column by column: n ids, n texts, n metadata objects, a float32 matrix (n, dimension)."""

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    embeddings: Vector
    extras: Mapping[int, Extras] = field(default_factory=dict)
    """By row, of the few that have any."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        return int(self.embeddings.shape[1])


@dataclass(frozen=True, slots=True)
class DocumentPatch:
    """A change of a document: parts that are None stay, `metadata` is a JSON Merge Patch (RFC 7396), and an empty `uri`
    takes away the one that is there."""

    text: str | None = None
    metadata: Metadata | None = None
    embedding: Vector | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """Changes of documents, column by column; what is None, a column or a value, is not changed.

    `metadatas` are merged key by key, and a value that is null removes its key.
    """

    ids: list[str]
    embeddings: list[Vector | None] | None = None
    texts: list[str | None] | None = None
    metadatas: list[Metadata | None] | None = None
    uris: list[str | None] | None = None

    def embedding(self, row: int) -> Vector | None:
        return None if self.embeddings is None else self.embeddings[row]

    def text(self, row: int) -> str | None:
        return None if self.texts is None else self.texts[row]

    def metadata(self, row: int) -> Metadata | None:
        return None if self.metadatas is None else self.metadatas[row]

    def uri(self, row: int) -> str | None:
        return None if self.uris is None else self.uris[row]


@dataclass(frozen=True, slots=True)
class OrderBy:
    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One page of documents. `total` counts all matches in the same snapshot; `next_cursor` is None at the end.

    `unknown_fields` are the fields of the order that no document has, in a collection with documents.
    """

    documents: list[Document]
    total: int
    next_cursor: str | None
    revision: int
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """A document near a query vector. `distance` is in the collection's metric, `score` in [0, 1], 1 is nearest."""

    document: Document
    distance: float
    score: float


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How the nearest documents of a collection were found: the name of the plan (`docs/architecture.md`), and of how
    many documents the distance was computed, None where that would tell of documents that the caller does not see.
    `recall` is the recall@10 of the index, as last measured; None where no index was asked, or as above."""

    name: str
    compared: int | None = None
    recall: float | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The nearest documents, nearest first, how they were found, and the collection in the same snapshot."""

    matches: list[Match]
    plan: SearchPlan
    collection: CollectionInfo


@dataclass(frozen=True, slots=True)
class GatherSpec:
    """The rule by which hits are extended to groups: documents that share the values of all fields `by`, in `order_by`.

    With `before` or `after`, only the hits and as many of their neighbours are given, otherwise the whole group. Of
    more than `limit` documents the hits come first, the best ones before others, and then the nearest to a hit. `text`
    asks for the running text of each group.
    """

    by: tuple[str, ...]
    order_by: tuple[OrderBy, ...] = ()
    limit: int = 100
    before: int | None = None
    after: int | None = None
    text: bool = False

    @property
    def window(self) -> tuple[int, int] | None:
        """How many documents before and after a hit are wanted, None for the whole group."""
        return None if self.before is None and self.after is None else (self.before or 0, self.after or 0)


@dataclass(frozen=True, slots=True)
class Group:
    """Documents that share the values of the gathered fields.

    `key` is the value of one field, a list of the values of several, and None for a hit that lacks one of them, which
    stands alone. `rank` counts from 1, the best hit's group first. `places` are those that the documents have in the
    whole group, from 1; `hits` are the ids that brought it into the answer; `total` counts the whole group. `text` is
    the running text of the documents, None unless asked for.
    """

    key: Any
    rank: int
    documents: list[Document]
    places: tuple[int, ...]
    hits: frozenset[str]
    total: int
    best_distance: float | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The groups around given documents; `missing` are those that do not exist, and no document has the
    `unknown_fields` of the rule, in a collection with documents."""

    groups: list[Group]
    missing: tuple[str, ...]
    unknown_fields: tuple[str, ...]
    collection: Collection


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A document found by its words; `score` is BM25, higher is better."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of one field with their counts, most frequent first; `distinct` counts all values.

    `minimum` and `maximum` are set when the field holds only numbers or only strings.
    """

    values: list[tuple[Any, int]]
    distinct: int
    minimum: Any = None
    maximum: Any = None
