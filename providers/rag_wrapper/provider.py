"""The storage proxy as a separate service, of this release or an older one, over REST.

The collections of an older service have no `revision`. It is asked only over the routes that every release has, with
filters of Chroma's grammar, and for nothing that it would answer differently.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self

from providers.arguments import (
    check_selection,
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_name,
    checked_top_k,
    checked_vector,
    in_order,
)
from providers.base import (
    ProviderContext,
    RagProvider,
    Registry,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsGather,
    SupportsMetadataFiltering,
    SupportsOrderBy,
    SupportsSearch,
    SupportsTextSearch,
)
from providers.chroma.filters import Clause, to_chroma
from providers.cursors import decode_offset, encode_cursor
from providers.outbound.answers import listed, number, reading, text, whole
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.recognition import Sign
from providers.pinned_writes import PinsEmbeddings
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import RouteNotFoundError, WrapperDialect
from providers.rag_wrapper.one_model import of_one_model
from providers.rag_wrapper.records import (
    NAMELESS,
    spelt_filter,
    to_document,
    to_group,
    to_info,
    to_report,
)
from providers.unsupported_filters import UnsupportedFilterError
from schemas.bounds import MAX_PAGE, MAX_TOP_K
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import UNHEALTHY, CollectionInfo
from schemas.errors import ConflictError, RagError, UnavailableError, UnsupportedError
from schemas.metadata import METRIC_KEY
from schemas.records import (
    Document,
    DocumentBatch,
    GatherSpec,
    Group,
    Match,
    Metadata,
    OrderBy,
    Page,
    TextMatch,
    Vector,
)
from schemas.scores import rounded, score
from schemas.storage.reembedding import EmbeddingModelDiffersError, ReembeddedMeanwhileError, recorded_model
from schemas.where import EVERYTHING, Where, to_json

PLACE = "the connection's URL"
"""The words that errors use for the service's address: the URL itself may come from a placeholder."""


class RagWrapperProvider(
    RagProvider,
    SupportsSearch,
    SupportsMetadataFiltering,
    SupportsEmbeddings,
    SupportsDynamicCollections,
    SupportsTextSearch,
    SupportsGather,
    SupportsOrderBy,
    PinsEmbeddings,
):
    """The collections of another service.

    Errors call its address `place`; `retry` and `sleep` are for requests that may succeed when they are sent again.
    """

    id = "chromadb-wrapper"
    display_name = "ChromaDB wrapper service"
    sign = Sign("/health", "service", "rag-wrapper")
    description = "The collections of another service like this one, also of an older release"
    limits: ClassVar[Mapping[str, Any]] = {
        "max_top_k": MAX_TOP_K,
        "max_page": MAX_PAGE,
        "older_services": "no text_search, gather, order_by or embeddings of pages, and Chroma's filters only",
    }

    def __init__(
        self,
        config: Mapping[str, Any],
        context: ProviderContext | None = None,
        *,
        place: str = PLACE,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(config, context)
        self._name = f"The service at {place}"
        self._client = WrapperClient(
            JsonClient(
                self.config["url"],
                WrapperDialect(place, self.context.service_id),
                network=self.context.network,
                redactor=self.context.redactor,
                api_key=self.config.get("api_key"),
                timeout_seconds=self.config["timeout_seconds"],
                retry=retry,
                sleep=sleep,
            )
        )
        self._is_known_as_current = False
        self._models: dict[str, str] = {}

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rag-chromadb-wrapper")

    def close(self) -> None:
        self._client.close()

    def check(self) -> dict[str, Any]:
        report = self._client.health()
        with self._reading():
            told = to_report(report)
        if told.get("status") == UNHEALTHY:
            raise UnavailableError(f"{self._name} says that it is unhealthy", error_type="unknown")
        # A proxy in front of the service may let anybody ask for its health: only this checks the key.
        found = self.collections()
        return told | {"collections_count": len(found)}

    def collections(self) -> list[CollectionInfo]:
        with self._reading():
            return sorted(map(to_info, self._client.collections()), key=lambda collection: collection.name)

    def collection(self, name: str) -> CollectionInfo:
        found = self._client.collection(checked_name(name))
        with self._reading():
            return to_info(found)

    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        kept = checked_collection(name, metadata, metric)
        try:
            self._client.create_collection(name, {**kept, METRIC_KEY: metric}, metric=metric)
        except RagError as error:
            if isinstance(error, ConflictError) or "already exists" not in error.message:
                raise
            raise ConflictError(error.message, code="collection_exists", collection=name) from error
        return self.collection(name)

    def delete_collection(self, name: str) -> None:
        self._client.delete_collection(checked_name(name))

    def embedded_as(self, collection: str, described: CollectionInfo) -> Self:
        pinned = copy.copy(self)
        # An empty name is an unknown model, which fits as long as the collection records none.
        pinned._models = {**self._models, collection: recorded_model(described.metadata) or ""}
        return pinned

    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Where | None = None) -> bool:
        checked = checked_batch(batch)
        documents = [
            {"id": document_id, "text": words, "metadata": metadata, "embedding": embedding}
            for document_id, words, metadata, embedding in zip(
                checked.ids, checked.texts, checked.metadatas, checked.embeddings, strict=True
            )
        ]
        if self._is_current(collection):
            replaced = None if replace_where is None else to_json(replace_where)
            model = self._models.get(collection)
            try:
                answer = self._client.add_documents(
                    collection, documents, replace_where=replaced, embedding_model=model
                )
            except ConflictError as error:
                if error.code == EmbeddingModelDiffersError.code:
                    raise ReembeddedMeanwhileError(collection) from error
                raise
            with self._reading():
                whole(answer["count"])
                return bool(answer.get("indexed", True))
        if replace_where is not None:
            raise self._too_old("replace_where")
        self._client.add_documents(collection, documents, with_arrays=True)
        return True

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> None:
        check_selection(ids, where)
        checked_name(collection)
        chosen = None if ids is None else list(ids)
        if where is not None and not self._is_current(collection):
            chosen, where = self._ids(collection, self._clause(where)), None
        if chosen is not None and any(each.startswith(NAMELESS) for each in chosen):
            raise self._too_old("deleting documents that it gives no ids")
        with self._needing("deleting documents"):
            self._client.delete_documents(collection, ids=chosen, where=None if where is None else to_json(where))

    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Where = EVERYTHING) -> list[Match]:
        vector = checked_vector(embedding)
        checked_top_k(top_k)
        if self._is_current(collection):
            answer = self._client.query(collection, vector, top_k=top_k, where=spelt_filter(where))
            with self._reading():
                return [
                    Match(to_document(each), number(each["distance"]), number(each["score"]))
                    for each in listed(answer, "results")
                ]
        metric, clause = self.collection(collection).metric, self._clause(where)
        if clause is False:
            return []
        answer = self._client.query(collection, vector, top_k=top_k, where=_sent(clause), with_arrays=True)
        with self._reading():
            distances = [(each, rounded(number(each["distance"]), metric)) for each in listed(answer, "results")]
            return [Match(to_document(each), distance, score(distance, metric)) for each, distance in distances]

    def text_search(
        self, collection: str, query: str, *, top_k: int = 10, where: Where = EVERYTHING
    ) -> list[TextMatch]:
        name, wanted = checked_name(collection), checked_top_k(top_k)
        with self._needing("text_search"):
            answer = self._client.text_search(name, query, top_k=wanted, where=spelt_filter(where))
        with self._reading():
            return [TextMatch(to_document(each), number(each["score"])) for each in listed(answer, "results")]

    def gather(self, collection: str, ids: Sequence[str], spec: GatherSpec) -> list[Group]:
        with self._needing("gather"):
            answer = self._client.gather(
                checked_name(collection),
                by=spec.by,
                ids=list(ids),
                order_by=_spelt(spec.order_by),
                limit=spec.limit,
                before=spec.before,
                after=spec.after,
            )
        with self._reading():
            groups = listed(answer, "groups")
            says_places = all("place" in each for group in groups for each in listed(group, "documents"))
            gathered = [to_group(each, with_text=spec.text) for each in groups]
        if spec.window is not None and not says_places:
            raise self._too_old("windows of groups")  # it gave whole groups, whatever it was asked for
        return gathered

    def documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        wanted = checked_limit(limit)
        if self._is_current(collection):
            return self._page(collection, where, (), wanted, cursor, with_embeddings)
        if with_embeddings:
            raise self._too_old("embeddings of pages")
        offset = decode_offset(cursor, where)
        page = self._listed(collection, self._clause(where), limit=wanted, offset=offset)
        following = offset + len(page.documents)
        more = following < page.total and page.documents
        return Page(page.documents, page.total, encode_cursor(following, where) if more else None, 0)

    def ordered_documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        order_by: Sequence[OrderBy],
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        wanted = checked_limit(limit)
        if not self._is_current(collection):
            raise self._too_old("order_by")
        return self._page(collection, where, order_by, wanted, cursor, with_embeddings)

    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        wanted = checked_ids(ids)
        if not self._is_current(collection):
            raise self._too_old("documents by id")
        if not wanted:
            return []
        include = ["embedding"] if with_embeddings else []

        def read() -> tuple[list[Document], int]:
            answer = self._client.page(collection, ids=wanted, limit=MAX_PAGE, include=include)
            with self._reading():
                found = in_order(map(to_document, listed(answer, "documents")), wanted)
                return found, whole(answer.get("revision") or 0)

        if with_embeddings and collection in self._models:
            return of_one_model(self._models[collection], read, partial(self.collection, collection))
        return read()[0]

    def _page(
        self,
        collection: str,
        where: Where,
        order_by: Sequence[OrderBy],
        limit: int,
        cursor: str | None,
        with_embeddings: bool,
    ) -> Page:
        with self._needing("pages by cursor"):
            answer = self._client.page(
                collection,
                spelt_filter(where),
                order_by=_spelt(order_by),
                limit=limit,
                cursor=cursor,
                include=["embedding"] if with_embeddings else [],
            )
        with self._reading():
            documents = [to_document(each) for each in listed(answer, "documents")]
            following, revision = answer.get("next_cursor"), whole(answer.get("revision") or 0)
            return Page(documents, whole(answer["total"]), None if following is None else text(following), revision)

    def _listed(self, collection: str, clause: Clause | bool, *, limit: int, offset: int) -> Page:
        if clause is False:
            return Page([], 0, None, 0)
        answer = self._client.listed(collection, _sent(clause), limit=limit, offset=offset)
        with self._reading():
            documents = [to_document(each) for each in listed(answer, "documents")]
            return Page(documents, whole(answer["total"]), None, 0)

    def _ids(self, collection: str, clause: Clause | bool) -> list[str]:
        page = self._listed(collection, clause, limit=MAX_PAGE, offset=0)
        ids = [document.id for document in page.documents]
        while len(ids) < page.total and page.documents:
            page = self._listed(collection, clause, limit=MAX_PAGE, offset=len(ids))
            ids += [document.id for document in page.documents]
        return ids

    def _is_current(self, collection: str) -> bool:
        """Return whether the service is of this release.

        Raises CollectionNotFoundError when it lacks the collection.
        """
        checked_name(collection)
        if not self._is_known_as_current:
            with self._reading():
                found = self._client.collection(collection)
                to_info(found)
            self._is_known_as_current = "revision" in found
        return self._is_known_as_current

    def _clause(self, where: Where) -> Clause | bool:
        try:
            return to_chroma(where)
        except UnsupportedFilterError as error:
            raise self._too_old(f"this filter ({error.message})", **error.details) from error

    @contextmanager
    def _needing(self, what: str) -> Iterator[None]:
        try:
            yield
        except RouteNotFoundError as error:
            raise self._too_old(what) from error

    def _too_old(self, what: str, **details: Any) -> UnsupportedError:
        return UnsupportedError(f"{self._name} is too old for {what}", code="service_too_old", **details)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with reading(self._name):
            yield


def _sent(clause: Clause | bool) -> Clause | None:
    return clause if isinstance(clause, dict) else None


def _spelt(order_by: Sequence[OrderBy]) -> list[str]:
    return [f"-{each.field}" if each.descending else each.field for each in order_by]


def register(registry: Registry) -> None:
    registry.register(RagWrapperProvider)
