"""Bodies of `/api/rag/*` and `/api/chat` (seeds 001 and 002), and their answers as JSON."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.chat import ROLES, ChatRequest, ChatSource, ChatTurn, Message, StoredMessage
from schemas.errors import InvalidInputError
from schemas.metadata import check_metadata
from schemas.names import check_collection_name
from schemas.pipeline import (
    MAX_CHUNKS,
    RAGContext,
    RetrieveRequest,
    RuleDocument,
)
from schemas.rag import (
    DEFAULT_TOP_K,
    MAX_TOP_K,
    Filters,
    KnownDocument,
    RagDocument,
    SimilarChunk,
    SimilarChunks,
    StoreMetrics,
    Upserted,
)
from schemas.searched import MAX_QUERY_CHARACTERS
from schemas.wire import DEFAULT_PAGE, MAX_PAGE, Body, Count, MetadataObject, ModelName, Number, Text
from schemas.wire_search import AskingCollections, CheckedFilter, collections_receipt

MAX_DOCUMENTS = 1_000
MAX_TAGS = 100
MAX_MESSAGES = 1_000
RESERVED_OPTIONS = ("model", "messages", "stream")
"""What options must not say: it has a field of its own, or is decided here."""
_SOURCE = re.compile(r"[a-zA-Z0-9_-]+")

Json = dict[str, Any]


class Words(Text):
    """A string with something in it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if not text.strip():
            raise ValidationError("must not be blank")
        return text


def check_conversation_id(value: str) -> None:
    """Raises ValidationError for an id that no path could have: proxies and clients resolve `.` and `..`."""
    if len(value) > 200:
        raise ValidationError("must have at most 200 characters")
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise ValidationError("must have no control characters")
    if not {".", ".."}.isdisjoint(value.split("/")):
        raise ValidationError("must not be '.' or '..', nor have such a part between slashes")


class Share(Number):
    """A number from 0 to 1."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> float:
        number = super()._deserialize(value, attr, data, **options)
        if not 0.0 <= number <= 1.0:
            raise ValidationError("must be between 0 and 1")
        return number


class Tags(fields.Field[tuple[str, ...]]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValidationError("must be an array of strings")
        for index, tag in enumerate(value):
            if not isinstance(tag, str):
                raise ValidationError(f"must be an array of strings: element {index} is not one")
        if len(value) > MAX_TAGS:
            raise ValidationError(f"must be at most {MAX_TAGS} tags")
        return tuple(value)


class CollectionName(Text):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        return check_collection_name(super()._deserialize(value, attr, data, **options))


class Flag(fields.Field[bool]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("must be true or false")
        return value


class Source(Words):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if not _SOURCE.fullmatch(text):
            raise ValidationError(f"must match ^{_SOURCE.pattern}$")
        return text


class LaterMetadata(MetadataObject):
    """Metadata whose faults wait for their turn: those of the fields before it are named first."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> Json:
        try:
            return super()._deserialize(value, attr, data, **options)
        except InvalidInputError as error:
            raise ValidationError(error.message.removeprefix(f"{attr} ")) from None


class Ingest(Body):
    source = Source(required=True)
    path = Words(required=True)
    title = Words(required=True)
    text = Words(required=True)
    hash = Words(load_default=None)
    tags = Tags(load_default=())
    metadata = LaterMetadata(load_default=dict)

    @post_load
    def _to_document(self, loaded: Json, **_: Any) -> dict[str, RagDocument]:
        return {"document": RagDocument(**loaded)}


class FiltersObject(Body):
    source = Words(load_default=None)
    tags = Tags(load_default=())

    @post_load
    def _to_filters(self, loaded: Json, **_: Any) -> Filters:
        return Filters(**loaded)


class RagSearch(AskingCollections):
    query = Words(required=True, validate=validate.Length(max=MAX_QUERY_CHARACTERS))
    top_k = Count(data_key="topK", least=1, most=MAX_TOP_K, load_default=DEFAULT_TOP_K)
    min_score = Share(data_key="minScore", load_default=0.0)
    filters = fields.Nested(FiltersObject, load_default=Filters)

    @post_load
    def _to_arguments(self, loaded: Json, **_: Any) -> Json:
        return self.one_field(loaded)


class Retrieve(AskingCollections):
    query = Text(required=True)
    context_key = Words(required=True, validate=validate.Length(max=1_000))
    max_chunks = Count(least=1, most=MAX_CHUNKS, load_default=None)
    min_relevance = Share(load_default=None)
    where = CheckedFilter(load_default=None)

    @post_load
    def _to_request(self, loaded: Json, **_: Any) -> dict[str, RetrieveRequest]:
        return {"request": RetrieveRequest(**self.one_field(loaded))}


class Rule(Body):
    """What a document must have besides is judged document by document, and named in the result."""

    document_id = fields.Raw(load_default=None)
    filename = Words(required=True)
    content = Text(required=True)
    metadata = MetadataObject(load_default=dict)

    @post_load
    def _to_document(self, loaded: Json, **_: Any) -> RuleDocument:
        return RuleDocument(**loaded)


class RuleBatch(Body):
    documents = fields.List(fields.Nested(Rule), required=True, validate=validate.Length(min=1, max=MAX_DOCUMENTS))
    collection = CollectionName(load_default=None)
    replace_missing = Flag(load_default=False)


class DocumentsPage(Body):
    collection = CollectionName(load_default=None)
    source = Words(load_default=None)
    path = Words(load_default=None)
    tag = Words(load_default=None)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_PAGE)
    cursor = Text(load_default=None)

    @post_load
    def _to_arguments(self, loaded: Json, **_: Any) -> Json:
        source, path, tag = (loaded.pop(name) for name in ("source", "path", "tag"))
        return {**loaded, "filters": Filters(source, () if tag is None else (tag,), path)}


class InCollection(Body):
    """Which collection a query string means."""

    collection = CollectionName(load_default=None)


class OneMessage(Body):
    role = Text(required=True, validate=validate.OneOf(ROLES))
    content = Text(required=True)

    @post_load
    def _to_message(self, loaded: Json, **_: Any) -> Message:
        return Message(**loaded)


class KnownOptions(Body):
    """Options whose values are the same everywhere."""

    temperature = Number(validate=validate.Range(min=0, max=10))
    max_tokens = Count(least=1, most=1_000_000)
    num_predict = Count(least=1, most=1_000_000)


class Options(fields.Field[Json]):
    """Options of a model, by whatever names its server has for them, each passed on as it is."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Json:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        for name in RESERVED_OPTIONS:
            if name in value:
                raise ValidationError({name: "is no option of a model: the service sets it"})
        given = {name: option for name, option in value.items() if option is not None}
        try:
            check_metadata(given)
        except InvalidInputError as error:
            raise ValidationError(error.message.removeprefix("metadata ")) from None
        return given | KNOWN_OPTIONS.load({name: given[name] for name in KNOWN_OPTIONS.fields if name in given})


KNOWN_OPTIONS = KnownOptions()


class Chat(AskingCollections):
    model = ModelName(load_default=None)
    messages = fields.List(fields.Nested(OneMessage), load_default=None, validate=validate.Length(max=MAX_MESSAGES))
    message = Words(load_default=None)
    system = Text(load_default=None)
    options = Options(load_default=dict)
    conversation_id = Words(data_key="conversationId", load_default=None, validate=check_conversation_id)
    use_rag = Flag(data_key="useRag", load_default=False)
    rag_top_k = Count(data_key="ragTopK", least=1, most=MAX_TOP_K, load_default=DEFAULT_TOP_K)
    rag_filters = fields.Nested(FiltersObject, data_key="ragFilters", load_default=Filters)

    @post_load
    def _to_request(self, loaded: Json, **_: Any) -> dict[str, ChatRequest]:
        messages, message = loaded.pop("messages"), loaded.pop("message")
        if not messages and message is None:
            raise ValidationError("is required", "messages")
        said = [*(messages or ()), *([Message("user", message)] if message is not None else ())]
        if not any(each.role == "user" and each.content.strip() for each in said):
            raise ValidationError("must have a message of the role user that is not blank", "messages")
        return {
            "request": ChatRequest(
                messages=tuple(said),
                is_continued=not messages,
                **self.one_field(loaded),
            )
        }


INGEST, CHUNK_SEARCH, RETRIEVE, RULE_BATCH = Ingest(), RagSearch(), Retrieve(), RuleBatch()
DOCUMENTS_PAGE, COLLECTION_ARGUMENTS, CHAT = DocumentsPage(), InCollection(), Chat()


def upserted(done: Upserted) -> Json:
    """To the letter: clients of seed 002 break at any other field."""
    return {"status": done.status, "documentId": done.document_id, "chunkCount": done.chunk_count}


def similar_chunks(query: str, found: SimilarChunks) -> Json:
    results = [similar_chunk(chunk) for chunk in found.chunks]
    receipt = collections_receipt(found.receipt)
    return {"query": query, "resultCount": len(results), "results": results, "receipt": receipt}


def similar_chunk(chunk: SimilarChunk) -> Json:
    return {
        "text": chunk.text,
        "score": chunk.score,
        "metadata": {
            **chunk.metadata,
            "documentId": chunk.document_id,
            "source": chunk.source,
            "path": chunk.path,
            "title": chunk.title,
            "chunkIndex": chunk.chunk_index,
            "tags": chunk.tags,
            "collection": chunk.collection,
            "chunkId": chunk.chunk_id,
        },
    }


def known_document(document: KnownDocument) -> Json:
    return {
        "documentId": document.document_id,
        "collection": document.collection,
        "source": document.source,
        "path": document.path,
        "title": document.title,
        "hash": document.hash,
        "tags": document.tags,
        "chunkCount": document.chunk_count,
        "embeddingModel": document.embedding_model,
        "createdAt": document.created_at,
        "updatedAt": document.updated_at,
    }


def rag_context(context: RAGContext) -> Json:
    return {**asdict(context), "receipt": collections_receipt(context.receipt)}


def store_metrics(metrics: StoreMetrics) -> Json:
    return {
        "documents": sum(each.documents for each in metrics.collections),
        "chunks": sum(each.chunks for each in metrics.collections),
        "collections": [asdict(each) for each in metrics.collections],
        "embedding": {"provider": metrics.provider, "model": metrics.model, "dimension": metrics.dimension},
    }


def chat_answer(turn: ChatTurn) -> Json:
    """Seed 002 names the answer `message`; its clients before named it `response`: it is under both."""
    said = {
        "message": turn.answer,
        "response": turn.answer,
        "conversationId": turn.conversation_id,
        "model": turn.model,
    }
    answer: Json = {"status": "success", "data": said, "ragUsed": turn.rag_used, "ragSources": _sources(turn.sources)}
    if turn.receipt is not None:
        answer["receipt"] = collections_receipt(turn.receipt)
    return answer


def _sources(sources: tuple[ChatSource, ...]) -> list[Json]:
    return [
        {
            "text": each.text,
            "score": each.score,
            "source": each.source,
            "title": each.title,
            "documentId": each.document_id,
            "collection": each.collection,
        }
        for each in sources
    ]


def stored_message(message: StoredMessage) -> Json:
    said = {"role": message.role, "content": message.content, "createdAt": message.created_at}
    if message.role != "assistant":
        return said
    return said | {"ragUsed": message.rag_used, "ragSources": _sources(message.rag_sources)}
