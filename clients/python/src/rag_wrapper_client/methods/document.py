"""Methods about the documents of a collection."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from numpy.typing import ArrayLike

from rag_wrapper_client.bodies import Body
from rag_wrapper_client.changes import Change, Place, asked, told
from rag_wrapper_client.documents import ExportedDocument, NewDocument, exported, line_of, sent
from rag_wrapper_client.embeddings import encoded
from rag_wrapper_client.errors import InvalidRequestError, NotFoundError
from rag_wrapper_client.exchanges import Exchange, WaitFor, ask, at, get, given, read, write
from rag_wrapper_client.operations import listing, operation, streamed
from rag_wrapper_client.pages import Listing, paged
from rag_wrapper_client.streams import ChangeDecoder, LineDecoder, Opening
from rag_wrapper_client.wire.storage import (
    CountDocumentsAnswer,
    DeleteDocumentAnswer,
    DeleteDocumentsAnswer,
    Document,
    DocumentPage,
    DocumentsAdded,
    EmptyCollectionAnswer,
    GetFacetsAnswer,
    GetProjectionAnswer,
    ImportDocumentsAnswer,
    ListMetadataValuesAnswer,
    PatchDocumentsAnswer,
    PutDocumentAnswer,
)

Where = Mapping[str, Any]
OnConflict = Literal["replace", "skip", "error"]
NOT_IN_PATHS = frozenset({"count", "search", "all", ".", ".."})
"""Ids that mean something else in a path."""


class DocumentMethods:
    @listing
    def documents(
        self,
        collection: str,
        where: Where | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        include: Sequence[str] | None = None,
        page_size: int = 1000,
    ) -> Listing[Document]:
        """Iterate over the documents that match a filter, in the order of first insertion or of `order_by`
        (`["-year", "title"]`). `include=["embedding"]` gives embeddings too."""
        body = given({"where": where, "order_by": order_by, "include": include, "limit": page_size})
        path = at("/collections/{}/documents/search", collection)
        return paged(lambda cursor: read(path, body | given({"cursor": cursor})), "documents")

    @operation
    def document_page(
        self,
        collection: str,
        where: Where | None = None,
        *,
        limit: int = 100,
        offset: int | None = None,
        order_by: str | Sequence[str] | None = None,
        cursor: str | None = None,
        include: Sequence[str] | None = None,
        if_none_match: str | None = None,
    ) -> Exchange[DocumentPage]:
        """Return one page, by offset or by cursor, with the number of documents that match."""
        return ask(
            get(
                at("/collections/{}/documents", collection),
                if_none_match=if_none_match,
                where=where,
                limit=limit,
                offset=offset,
                order_by=order_by,
                cursor=cursor,
                include=include,
            )
        )

    @operation
    def documents_by_id(
        self, collection: str, ids: Sequence[str], *, include: Sequence[str] | None = None
    ) -> Exchange[list[Document]]:
        """Return the documents of these ids that exist, in the order of the ids."""
        return _by_id(collection, ids, include)

    @operation
    def document(
        self,
        collection: str,
        document_id: str,
        *,
        include: Sequence[str] | None = None,
        if_none_match: str | None = None,
    ) -> Exchange[Document]:
        """Return a document. Raises NotFoundError when there is none."""
        if document_id in NOT_IN_PATHS:
            return _only(_by_id(collection, [document_id], include), document_id)
        path = at("/collections/{}/documents/{}", collection, document_id)
        return ask(get(path, include=include, if_none_match=if_none_match))

    @operation
    def add_documents(
        self,
        collection: str,
        documents: Iterable[NewDocument],
        *,
        on_conflict: OnConflict = "replace",
        replace_where: Where | None = None,
        all_matching: bool = False,
        embedding_model: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[DocumentsAdded]:
        """Store documents in one transaction, replacing those of the same id. With `replace_where`, documents that
        match it and are not among the new ones are deleted in the same transaction; one that matches every document
        without naming what they have needs `all_matching`. Raises ConflictError when the
        collection records another model than `embedding_model`. With `wait="commit"` the answer does not wait for the
        vector index."""
        body = {"documents": [sent(document) for document in documents]}
        path = at("/collections/{}/documents", collection)
        conditions = given(
            {"on_conflict": on_conflict, "replace_where": replace_where, "embedding_model": embedding_model}
        ) | _confirmed(all_matching)
        return ask(
            write("POST", path, body, if_match=if_match, idempotency_key=idempotency_key, wait=wait, **conditions)
        )

    @operation
    def stream_documents(
        self,
        collection: str,
        documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
        *,
        on_conflict: OnConflict = "replace",
        embedding_model: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[DocumentsAdded]:
        """Store any number of documents as they come, in bounded memory: those that are right in transactions of at
        most 500, the others are told in `errors`. Only what can be read again from its beginning, such as a list, is
        sent again after a lost connection. An asynchronous source needs the AsyncClient."""
        path = at("/collections/{}/documents", collection)
        conditions = given({"on_conflict": on_conflict, "embedding_model": embedding_model})
        request = write("POST", path, if_match=if_match, idempotency_key=idempotency_key, wait=wait, **conditions)
        return ask(replace(request, body=Body.of_lines(documents, line_of)))

    @operation
    def import_documents(
        self,
        collection: str,
        documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
        *,
        count: int | None = None,
        embedding_model: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[ImportDocumentsAnswer]:
        """Store an export as it is. The first bad document ends it; so does another number of them than `count`. Raises
        ConflictError when the collection records another model than `embedding_model`."""
        path = at("/collections/{}/import", collection)
        conditions = given({"embedding_model": embedding_model})
        request = write("POST", path, if_match=if_match, idempotency_key=idempotency_key, wait=wait, **conditions)
        announced = given({"X-Document-Count": None if count is None else str(count)})
        headers = {**request.headers, **announced}
        return ask(replace(request, headers=headers, body=Body.of_lines(documents, line_of)))

    @streamed
    def export_documents(self, collection: str, *, if_none_match: str | None = None) -> Opening[ExportedDocument]:
        """Iterate over all documents of one revision, their embeddings as arrays. A stream that ends too early raises
        UnusableAnswerError."""
        request = get(at("/collections/{}/export", collection), if_none_match=if_none_match)
        return Opening(request, lambda headers: LineDecoder(exported, int(headers["X-Document-Count"])))

    @streamed
    def changes(
        self,
        collection: str,
        place: Place | None = None,
        *,
        include: Sequence[str] | None = None,
        limit: int | None = None,
        wait_seconds: int | None = None,
        embedding_model: str | None = None,
    ) -> Opening[Change | Place]:
        """Iterate over what has changed since a place, from the beginning without one, and at last give the place that
        was reached. When nothing has changed yet, wait up to `wait_seconds` (60 at most).

        Raises GoneError when the copy has to begin anew, ConflictError when the collection does not record
        `embedding_model` (an empty one: when it records any), UnusableAnswerError when the answer was cut off.
        """
        params = {**asked(place), "include": include, "limit": limit, "wait": wait_seconds}
        params["embedding_model"] = embedding_model
        return Opening(get(at("/collections/{}/changes", collection), **params), lambda _: ChangeDecoder(told))

    @operation
    def change_document(
        self,
        collection: str,
        document_id: str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        embedding: ArrayLike | str | None = None,
        embedding_model: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[Document]:
        """Change the parts of a document that are given; in `metadata`, None removes a key. Raises ConflictError when
        the collection records another model than `embedding_model`."""
        vector = None if embedding is None else encoded(embedding)
        body = given({"text": text, "metadata": metadata, "embedding": vector})
        path = _path(collection, document_id)
        conditions = given({"embedding_model": embedding_model})
        return ask(
            write("PATCH", path, body, if_match=if_match, idempotency_key=idempotency_key, wait=wait, **conditions)
        )

    @operation
    def change_documents(
        self,
        collection: str,
        metadata: Mapping[str, Any],
        *,
        where: Where | None = None,
        ids: Sequence[str] | None = None,
        all_matching: bool = False,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[PatchDocumentsAnswer]:
        """Merge into the metadata of the documents of a filter or of ids; None removes a key. `{}` means all; another
        filter that matches every document without naming what they have needs `all_matching`."""
        body = {"metadata": metadata, **given({"where": where, "ids": ids})}
        path = at("/collections/{}/documents", collection)
        return ask(
            write(
                "PATCH",
                path,
                body,
                if_match=if_match,
                idempotency_key=idempotency_key,
                wait=wait,
                **_confirmed(all_matching),
            )
        )

    @operation
    def put_document(
        self,
        collection: str,
        document_id: str,
        document: NewDocument,
        *,
        embedding_model: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[PutDocumentAnswer]:
        """Store one document under this id, in place of the one that is there. Raises ConflictError when the collection
        records another model than `embedding_model`."""
        path, body = _path(collection, document_id), sent(document)
        conditions = given({"embedding_model": embedding_model})
        return ask(
            write("PUT", path, body, if_match=if_match, idempotency_key=idempotency_key, wait=wait, **conditions)
        )

    @operation
    def delete_document(
        self,
        collection: str,
        document_id: str,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[DeleteDocumentAnswer]:
        """Delete one document."""
        return ask(
            write(
                "DELETE", _path(collection, document_id), if_match=if_match, idempotency_key=idempotency_key, wait=wait
            )
        )

    @operation
    def delete_documents(
        self,
        collection: str,
        *,
        ids: Sequence[str] | None = None,
        where: Where | None = None,
        all_matching: bool = False,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[DeleteDocumentsAnswer]:
        """Delete by ids (at most 10,000) or by filter. A filter that matches every document needs `all_matching`."""
        path = at("/collections/{}/documents", collection)
        body = given({"ids": None if ids is None else list(ids), "where": where})
        return ask(
            write(
                "DELETE",
                path,
                body,
                if_match=if_match,
                idempotency_key=idempotency_key,
                wait=wait,
                **_confirmed(all_matching),
            )
        )

    @operation
    def empty_collection(
        self,
        collection: str,
        *,
        if_match: str | None = None,
        idempotency_key: str | None = None,
        wait: WaitFor | None = None,
    ) -> Exchange[EmptyCollectionAnswer]:
        """Delete all documents and keep the collection."""
        path = at("/collections/{}/documents/all", collection)
        return ask(write("DELETE", path, if_match=if_match, idempotency_key=idempotency_key, wait=wait))

    @operation
    def count_documents(
        self, collection: str, where: Where | None = None, *, if_none_match: str | None = None
    ) -> Exchange[CountDocumentsAnswer]:
        """Count the documents that match a filter."""
        return ask(get(at("/collections/{}/documents/count", collection), where=where, if_none_match=if_none_match))

    @operation
    def metadata_values(
        self, collection: str, field: str, *, if_none_match: str | None = None
    ) -> Exchange[ListMetadataValuesAnswer]:
        """List the distinct values of a metadata field."""
        return ask(get(at("/collections/{}/metadata-values", collection), field=field, if_none_match=if_none_match))

    @operation
    def facets(
        self,
        collection: str,
        fields: Sequence[str],
        where: Where | None = None,
        *,
        limit: int | None = None,
        if_none_match: str | None = None,
    ) -> Exchange[GetFacetsAnswer]:
        """Count the values of metadata fields, the most frequent `limit` of each."""
        path = at("/collections/{}/facets", collection)
        return ask(get(path, fields=list(fields), where=where, limit=limit, if_none_match=if_none_match))

    @operation
    def projection(
        self,
        collection: str,
        *,
        limit: int | None = None,
        field: str | None = None,
        where: Where | None = None,
        if_none_match: str | None = None,
    ) -> Exchange[GetProjectionAnswer]:
        """Return documents as points in a plane, coloured by a metadata field."""
        path = at("/collections/{}/projection", collection)
        return ask(get(path, limit=limit, field=field, where=where, if_none_match=if_none_match))


def _path(collection: str, document_id: str) -> str:
    """Return the path of a document that is to be written. Raises InvalidRequestError for an id that would be read as
    something else: `all` would be every document."""
    if document_id in NOT_IN_PATHS:
        message = f"{document_id!r} is no id that a path can hold: use the methods that take `ids` or documents"
        raise InvalidRequestError(message, code="not_in_a_path")
    return at("/collections/{}/documents/{}", collection, document_id)


def _by_id(collection: str, ids: Sequence[str], include: Sequence[str] | None) -> Exchange[list[Document]]:
    path = at("/collections/{}/documents/search", collection)
    documents: list[Document] = []
    for start in range(0, len(ids), 1000):  # a page holds no more
        part = list(ids[start : start + 1000])
        answer = yield from ask(read(path, given({"ids": part, "include": include, "limit": len(part)})))
        documents += answer["documents"]
    return documents


def _only(found: Exchange[list[Document]], document_id: str) -> Exchange[Document]:
    documents = yield from found
    if not documents:
        raise NotFoundError(f"Document '{document_id}' not found", code="document_not_found", status=404)
    return documents[0]


def _confirmed(all_matching: bool) -> dict[str, Any]:
    """Return the parameter that lets a filter match every document."""
    return {"all": True} if all_matching else {}
