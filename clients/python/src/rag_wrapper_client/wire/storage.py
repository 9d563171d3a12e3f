"""Answers about collections and their documents.

Made from openapi.yaml by `clients/python/wire_types.py`: change that, not this."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rag_wrapper_client.wire.shared import Index, Metric, QueryPlan


class Alias(TypedDict):
    alias: str
    collection: str
    warnings: NotRequired[list[str]]


class ChromaDatabase(TypedDict):
    id: str
    name: str
    tenant: str


class Collection(TypedDict):
    id: str
    name: str
    count: int
    metadata: dict[str, Any]
    dimension: Dimension
    metric: Metric
    revision: int
    adopting: NotRequired[Literal[True]]
    index: NotRequired[Index]
    warnings: NotRequired[list[str]]


class CopyCollectionAnswer(TypedDict):
    status: Literal["copied"]
    id: str
    name: str
    copy_of: str
    count: int
    metadata: dict[str, Any]
    dimension: Dimension
    metric: Metric
    revision: int
    indexed: bool
    set_aside: NotRequired[list[str]]
    warnings: NotRequired[list[str]]


class CountDocumentsAnswer(TypedDict):
    count: int
    revision: int
    warnings: NotRequired[list[str]]


class DeleteAliasAnswer(TypedDict):
    status: Literal["deleted"]
    alias: str
    collection: str
    warnings: NotRequired[list[str]]


class DeleteCollectionAnswer(TypedDict):
    status: Literal["deleted"]
    name: str
    warnings: NotRequired[list[str]]


class DeleteDocumentAnswer(TypedDict):
    status: Literal["deleted"]
    collection: str
    count: int
    revision: int
    warnings: NotRequired[list[str]]


class DeleteDocumentsAnswer(TypedDict):
    status: Literal["deleted"]
    collection: str
    count: int
    revision: int
    warnings: NotRequired[list[str]]


class Document(TypedDict):
    id: str
    text: str
    metadata: dict[str, Any]
    uri: NotRequired[str]
    embedding: NotRequired[list[float]]
    warnings: NotRequired[list[str]]


class DocumentPage(TypedDict):
    documents: list[Document]
    count: int
    total: int
    next_cursor: str | None
    revision: int
    warnings: NotRequired[list[str]]


class DocumentsAdded(TypedDict):
    status: Literal["added"]
    collection: str
    count: int
    ids: NotRequired[list[str]]
    created: int
    updated: int
    unchanged: int
    deleted: NotRequired[int]
    indexed: bool
    set_aside: NotRequired[list[str]]
    revision: int
    errors: NotRequired[list[LineError]]
    errors_total: NotRequired[int]
    warnings: NotRequired[list[str]]


class EmptyCollectionAnswer(TypedDict):
    status: Literal["emptied"]
    collection: str
    count_deleted: int
    revision: int
    warnings: NotRequired[list[str]]


class Facet(TypedDict):
    values: list[FacetValue]
    distinct: int
    min: NotRequired[float | str]
    max: NotRequired[float | str]


class FacetValue(TypedDict):
    value: Scalar
    count: int


class Gather(TypedDict):
    by: str | list[str]
    order_by: NotRequired[OrderBy]
    limit: NotRequired[int | None]
    before: NotRequired[int | None]
    after: NotRequired[int | None]
    text: NotRequired[bool | None]


class GatherDocumentsAnswer(TypedDict):
    groups: list[Group]
    missing: NotRequired[list[str]]
    revision: int
    warnings: NotRequired[list[str]]


class GetFacetsAnswer(TypedDict):
    facets: dict[str, Facet]
    total: int
    revision: int
    warnings: NotRequired[list[str]]


class GetProjectionAnswer(TypedDict):
    collection: str
    revision: int
    method: Literal["pca"]
    explained: list[float]
    total: int
    sampled: bool
    points: GetProjectionAnswerPoints
    field: str | None
    scale: Literal["categories", "numbers"] | None
    categories: list[GetProjectionAnswerCategory]
    warnings: NotRequired[list[str]]


class GetProjectionAnswerCategory(TypedDict):
    value: str | float | bool
    count: int


class GetProjectionAnswerPoints(TypedDict):
    ids: list[str]
    x: list[float]
    y: list[float]
    value: NotRequired[list[float | None]]


class Group(TypedDict):
    key: str | float | bool | list[str | float | bool] | None
    rank: int
    best_distance: NotRequired[float | None]
    documents: list[GroupDocument]
    total: int
    complete: bool
    text: NotRequired[str]


class GroupDocument(TypedDict):
    id: str
    text: str
    metadata: dict[str, Any]
    uri: NotRequired[str]
    embedding: NotRequired[list[float]]
    warnings: NotRequired[list[str]]
    hit: bool
    place: int
    distance: NotRequired[float]


class ImportDocumentsAnswer(TypedDict):
    status: Literal["imported"]
    collection: str
    count: int
    created: int
    updated: int
    unchanged: int
    sha256: str
    verified: bool
    indexed: bool
    set_aside: NotRequired[list[str]]
    revision: int
    warnings: NotRequired[list[str]]


class LineError(TypedDict):
    line: int
    code: str
    message: str
    details: NotRequired[dict[str, Any]]


class ListAliasesAnswer(TypedDict):
    aliases: list[Alias]
    warnings: NotRequired[list[str]]


class ListCollectionsAnswer(TypedDict):
    collections: list[Collection]
    next_cursor: NotRequired[str | None]
    warnings: NotRequired[list[str]]


class ListDatabasesOfAllAnswer(TypedDict):
    databases: list[ChromaDatabase]
    warnings: NotRequired[list[str]]


class ListMetadataValuesAnswer(TypedDict):
    field: str
    values: list[str]
    count: int
    warnings: NotRequired[list[str]]


class MadeCollection(TypedDict):
    status: Literal["created", "exists"]
    id: str
    name: str
    metadata: dict[str, Any]
    dimension: Dimension
    metric: Metric
    revision: int
    warnings: NotRequired[list[str]]


class MergeCollectionMetadataAnswer(TypedDict):
    status: Literal["updated"]
    name: str
    metadata: dict[str, Any]
    merge: bool
    revision: int
    warnings: NotRequired[list[str]]


class PatchDocumentsAnswer(TypedDict):
    status: Literal["updated"]
    collection: str
    count: int
    updated: int
    unchanged: int
    revision: int
    indexed: bool
    set_aside: NotRequired[list[str]]
    warnings: NotRequired[list[str]]


class ProbeQueryAnswer(TypedDict):
    status: Literal["ready"]
    collections: int
    warnings: NotRequired[list[str]]


class PutAliasAnswer(TypedDict):
    status: Literal["created", "switched"]
    alias: str
    collection: str
    previous: str | None
    warnings: NotRequired[list[str]]


class PutDocumentAnswer(TypedDict):
    status: Literal["created", "replaced", "unchanged"]
    collection: str
    id: str
    revision: int
    indexed: bool
    set_aside: NotRequired[list[str]]
    warnings: NotRequired[list[str]]


class QueryAnswer1(TypedDict):
    answers: list[QueryResults]
    warnings: NotRequired[list[str]]


class QueryCollectionAnswer1(TypedDict):
    answers: list[QueryResults]
    warnings: NotRequired[list[str]]


class QueryResult(TypedDict):
    id: str
    text: str
    metadata: dict[str, Any]
    uri: NotRequired[str]
    embedding: NotRequired[list[float]]
    warnings: NotRequired[list[str]]
    distance: float
    score: float


class QueryResults(TypedDict):
    results: list[QueryResult]
    collection: str
    collection_metadata: dict[str, Any]
    query: str | None
    plan: QueryPlan
    recall_at_10: NotRequired[float]
    revision: int
    groups: NotRequired[list[Group]]
    warnings: NotRequired[list[str]]


class RenameCollectionAnswer(TypedDict):
    status: Literal["renamed"]
    id: str
    name: str
    previous_name: str
    revision: int
    warnings: NotRequired[list[str]]


class ReplaceCollectionMetadataAnswer(TypedDict):
    status: Literal["updated"]
    name: str
    metadata: dict[str, Any]
    merge: bool
    revision: int
    warnings: NotRequired[list[str]]


class SearchTextAnswer(TypedDict):
    results: list[TextResult]
    total: int
    revision: int
    warnings: NotRequired[list[str]]


class TextResult(TypedDict):
    id: str
    text: str
    score: float
    metadata: dict[str, Any]
    uri: NotRequired[str]


Dimension: TypeAlias = int | None


OrderBy: TypeAlias = list[str] | str | None


Scalar: TypeAlias = str | float | bool
