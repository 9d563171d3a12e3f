"""The one table of what each route and each tool asks of a caller, and how it names the collection it is about.

The service does not start with a route or tool that is missing here. `docs/access.md` shows this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from schemas.access.callers import Scope

READ, WRITE, MANAGE, CHAT, CONNECT, METRICS, ADMIN = Scope


class Door(StrEnum):
    """Routes that ask for no scope."""

    PUBLIC = "public"
    """Anybody may call it, without a key."""
    KNOWN = "any key"
    """Any caller with a valid key may call it; a tool called through it asks for its own scope."""


class Names(StrEnum):
    """Where a request names its collection."""

    NOWHERE = ""
    PATH = "path"
    QUERY = "query string: collection"
    BODY = "body: collection"
    BODY_NAME = "body: name"
    CHOSEN = "body: collections, collection"
    """Without one, all that the caller may read are meant."""
    KNOWLEDGE = "body: knowledge_id"
    """Without one, all that the caller may read are meant."""
    STORES = "body: vector_store_ids"
    """Without one, all that the caller may read are meant."""
    ENTRIES = "body: selectedCollections"
    QUERY_CHOSEN = "query string: collections, collection"
    """Without one, all that the caller may read are meant."""
    DEFAULT = "body: collection, else the contract's"
    UPLOADED = "query string or form: collection, else the contract's"
    CONTRACT = "the contract's"
    LISTED = "lists those of the caller"
    TOOL = "the tool's arguments"
    ID = "path: the collection's id"
    IN_DATABASE = "path, in a database"
    MADE_IN_DATABASE = "body: name, in a database"


@dataclass(frozen=True, slots=True)
class Access:
    """A row: what a route or tool asks for, where a request names the collection, and what some requests ask for
    besides, with the words for which ones."""

    needs: Scope | Door
    names: Names = Names.NOWHERE
    also: tuple[Scope, str] | None = None

    @property
    def is_administration(self) -> bool:
        """Whether an administrator alone may have all of it done."""
        return self.needs is ADMIN or (self.also is not None and self.also[0] is ADMIN)


_DOCUMENTS = "/collections/{name}/documents"
_CONNECTIONS = "/api/connections"
_CHROMA = "/api/v2"
_TENANT = f"{_CHROMA}/tenants/{{tenant}}"
_DATABASE = f"{_TENANT}/databases/{{database}}"
_RECORDS = f"{_DATABASE}/collections/{{collection_id}}"
_STORE = "/v1/vector_stores/{vector_store_id}"
_OF_FOLDERS = ADMIN, "with config.path of Qdrant"
_OF_THE_CHAT_MODEL = ADMIN, f"{_OF_FOLDERS[1]}, or chat_model"

ROUTES: Mapping[str, Access] = {
    "GET /collections": Access(READ, Names.LISTED, also=(MANAGE, "with include")),
    "POST /collections": Access(MANAGE, Names.BODY_NAME),
    "GET /collections/{name}": Access(READ, Names.PATH),
    "DELETE /collections/{name}": Access(MANAGE, Names.PATH),
    "PATCH /collections/{name}": Access(MANAGE, Names.PATH),
    "POST /collections/{name}/copy": Access(MANAGE, Names.PATH),
    "PUT /collections/{name}/metadata": Access(MANAGE, Names.PATH),
    "PATCH /collections/{name}/metadata": Access(MANAGE, Names.PATH),
    f"GET {_DOCUMENTS}": Access(READ, Names.PATH),
    f"POST {_DOCUMENTS}": Access(WRITE, Names.PATH),
    f"PATCH {_DOCUMENTS}": Access(WRITE, Names.PATH),
    f"DELETE {_DOCUMENTS}": Access(WRITE, Names.PATH),
    f"DELETE {_DOCUMENTS}/all": Access(WRITE, Names.PATH),
    f"POST {_DOCUMENTS}/search": Access(READ, Names.PATH),
    f"GET {_DOCUMENTS}/count": Access(READ, Names.PATH),
    f"GET {_DOCUMENTS}/{{document_id}}": Access(READ, Names.PATH),
    f"PUT {_DOCUMENTS}/{{document_id}}": Access(WRITE, Names.PATH),
    f"PATCH {_DOCUMENTS}/{{document_id}}": Access(WRITE, Names.PATH),
    f"DELETE {_DOCUMENTS}/{{document_id}}": Access(WRITE, Names.PATH),
    "GET /collections/{name}/metadata-values": Access(READ, Names.PATH),
    "GET /collections/{name}/facets": Access(READ, Names.PATH),
    "GET /collections/{name}/projection": Access(READ, Names.PATH),
    "GET /collections/{name}/export": Access(READ, Names.PATH),
    "GET /collections/{name}/changes": Access(READ, Names.PATH),
    "POST /collections/{name}/import": Access(MANAGE, Names.PATH),
    "POST /collections/{name}/query": Access(READ, Names.PATH),
    "POST /query": Access(READ, Names.BODY),
    "GET /query": Access(READ, Names.LISTED),
    "POST /collections/{name}/gather": Access(READ, Names.PATH),
    "POST /collections/{name}/text-search": Access(READ, Names.PATH),
    "GET /collections/{name}/index": Access(MANAGE, Names.PATH),
    "POST /collections/{name}/index/check": Access(MANAGE, Names.PATH),
    "POST /collections/{name}/index/rebuild": Access(MANAGE, Names.PATH),
    "POST /collections/{name}/reembed": Access(MANAGE, Names.PATH),
    "GET /collections/{name}/reembed": Access(MANAGE, Names.PATH),
    "DELETE /collections/{name}/reembed": Access(MANAGE, Names.PATH),
    "GET /aliases": Access(READ, Names.LISTED),
    "GET /aliases/{alias}": Access(READ),
    "PUT /aliases/{alias}": Access(MANAGE, Names.BODY),
    "DELETE /aliases/{alias}": Access(MANAGE),
    "GET /databases": Access(READ),
    f"GET {_CONNECTIONS}/providers": Access(READ),
    f"GET {_CONNECTIONS}/providers/{{provider}}": Access(READ),
    f"GET {_CONNECTIONS}/providers/{{provider}}/schema": Access(READ),
    f"POST {_CONNECTIONS}/validate": Access(CONNECT, also=_OF_FOLDERS),
    f"POST {_CONNECTIONS}/test": Access(CONNECT, also=_OF_FOLDERS),
    f"POST {_CONNECTIONS}/rag/test": Access(CONNECT, also=_OF_FOLDERS),
    f"POST {_CONNECTIONS}/embedding/test": Access(CONNECT),
    f"POST {_CONNECTIONS}/llm/test": Access(CONNECT),
    f"POST {_CONNECTIONS}/rerank/test": Access(CONNECT),
    f"POST {_CONNECTIONS}/embedding/discovery/models": Access(CONNECT),
    f"POST {_CONNECTIONS}/llm/discovery/models": Access(CONNECT),
    f"GET {_CONNECTIONS}/env-vars": Access(CONNECT),
    f"POST {_CONNECTIONS}/env-vars/validate": Access(CONNECT),
    f"GET {_CONNECTIONS}/env-vars/suggestions": Access(CONNECT),
    f"GET {_CONNECTIONS}": Access(CONNECT),
    f"POST {_CONNECTIONS}": Access(CONNECT, also=_OF_FOLDERS),
    f"GET {_CONNECTIONS}/health": Access(CONNECT),
    f"GET {_CONNECTIONS}/{{connection_id}}": Access(CONNECT),
    f"PUT {_CONNECTIONS}/{{connection_id}}": Access(CONNECT, also=_OF_THE_CHAT_MODEL),
    f"DELETE {_CONNECTIONS}/{{connection_id}}": Access(CONNECT),
    f"GET {_CONNECTIONS}/{{connection_id}}/health": Access(CONNECT),
    f"GET {_CONNECTIONS}/{{connection_id}}/collections": Access(CONNECT, Names.LISTED),
    "POST /api/collect": Access(READ, Names.ENTRIES),
    "POST /api/rag/ingest": Access(WRITE, Names.CONTRACT),
    "POST /api/rag/search": Access(READ, Names.CHOSEN),
    "GET /api/rag/documents": Access(READ, Names.QUERY),
    "DELETE /api/rag/documents/{document_id}": Access(WRITE, Names.QUERY),
    "GET /api/rag/metrics": Access(READ, Names.CONTRACT),
    "POST /api/rag/documents:batch": Access(WRITE, Names.DEFAULT),
    "POST /api/rag/retrieve": Access(READ, Names.CHOSEN),
    "POST /api/chat": Access(CHAT, Names.CHOSEN, also=(READ, "with useRag")),
    "GET /api/chat/{conversation_id}": Access(CHAT),
    "DELETE /api/chat/{conversation_id}": Access(CHAT),
    "POST /api/documents": Access(WRITE, Names.UPLOADED),
    "POST /api/documents/compare": Access(READ, Names.DEFAULT),
    "GET /api/documents": Access(READ, Names.QUERY_CHOSEN),
    "GET /api/documents/{document_id}": Access(READ, Names.QUERY),
    "DELETE /api/documents/{document_id}": Access(WRITE, Names.QUERY),
    "GET /api/documents/{document_id}/original": Access(READ, Names.QUERY),
    "GET /api/jobs": Access(READ),
    "GET /api/jobs/{job_id}": Access(READ),
    "DELETE /api/jobs/{job_id}": Access(WRITE),
    "POST /api/judgements": Access(READ, Names.BODY),
    "GET /api/judgements": Access(READ),
    "GET /api/query-set": Access(READ, Names.QUERY),
    "DELETE /api/judgements/{judgement_id}": Access(READ),
    "POST /api/bench": Access(READ, Names.BODY),
    "GET /api/bench": Access(READ),
    "GET /api/bench/{bench_id}": Access(READ),
    "DELETE /api/bench/{bench_id}": Access(READ),
    "GET /tools": Access(READ),
    "POST /tools/{tool}": Access(Door.KNOWN, Names.TOOL),
    "GET /tools/{tool}": Access(Door.KNOWN, Names.TOOL),
    "GET /api/watchers": Access(READ),
    "GET /api/watchers/{name}": Access(READ),
    "PUT /api/watchers/{name}": Access(WRITE),
    "DELETE /api/watchers/{name}": Access(WRITE),
    "POST /api/search": Access(READ, Names.CHOSEN),
    "POST /rerank": Access(READ),
    "POST /dify/retrieval": Access(READ, Names.KNOWLEDGE),
    "POST /v1/embeddings": Access(READ),
    "POST /v1/chat/completions": Access(CHAT, Names.STORES, also=(READ, "with documents")),
    f"POST {_STORE}/search": Access(READ, Names.PATH),
    "POST /v1/vector_stores": Access(WRITE),
    "GET /v1/vector_stores": Access(READ, Names.LISTED),
    f"GET {_STORE}": Access(READ, Names.PATH),
    f"POST {_STORE}": Access(MANAGE, Names.PATH),
    f"DELETE {_STORE}": Access(MANAGE, Names.PATH),
    f"POST {_STORE}/files": Access(WRITE, Names.PATH),
    f"GET {_STORE}/files": Access(READ, Names.PATH),
    f"GET {_STORE}/files/{{file_id}}": Access(READ, Names.PATH),
    f"POST {_STORE}/files/{{file_id}}": Access(WRITE, Names.PATH),
    f"DELETE {_STORE}/files/{{file_id}}": Access(WRITE, Names.PATH),
    f"GET {_STORE}/files/{{file_id}}/content": Access(READ, Names.PATH),
    f"POST {_STORE}/file_batches": Access(WRITE, Names.PATH),
    f"GET {_STORE}/file_batches/{{batch_id}}": Access(READ, Names.PATH),
    f"POST {_STORE}/file_batches/{{batch_id}}/cancel": Access(WRITE, Names.PATH),
    f"GET {_STORE}/file_batches/{{batch_id}}/files": Access(READ, Names.PATH),
    "POST /v1/files": Access(WRITE),
    "GET /v1/files": Access(READ),
    "GET /v1/files/{file_id}": Access(READ),
    "DELETE /v1/files/{file_id}": Access(WRITE),
    "GET /v1/files/{file_id}/content": Access(READ),
    "GET /v1/models": Access(Door.KNOWN),
    "GET /v1/models/{model}": Access(Door.KNOWN),
    "POST /mcp": Access(Door.KNOWN, Names.TOOL),
    "GET /api/me": Access(Door.KNOWN),
    "GET /api/keys": Access(ADMIN),
    "POST /api/keys": Access(ADMIN),
    "GET /api/keys/{key_id}": Access(ADMIN),
    "PATCH /api/keys/{key_id}": Access(ADMIN),
    "DELETE /api/keys/{key_id}": Access(ADMIN),
    "POST /api/keys/{key_id}/rotate": Access(ADMIN),
    "GET /api/audit": Access(ADMIN),
    "GET /api/settings": Access(ADMIN),
    "POST /api/erase": Access(ADMIN, Names.BODY),
    "GET /api/backups": Access(ADMIN),
    "POST /api/backups": Access(ADMIN),
    "GET /api/backups/{backup_id}": Access(ADMIN),
    "GET /api/backups/{backup_id}/content": Access(ADMIN),
    "DELETE /api/backups/{backup_id}": Access(ADMIN),
    f"GET {_CHROMA}": Access(Door.PUBLIC),
    f"GET {_CHROMA}/heartbeat": Access(Door.PUBLIC),
    f"GET {_CHROMA}/version": Access(Door.PUBLIC),
    f"GET {_CHROMA}/healthcheck": Access(Door.PUBLIC),
    f"GET {_CHROMA}/pre-flight-checks": Access(Door.KNOWN),
    f"GET {_CHROMA}/auth/identity": Access(Door.KNOWN),
    f"POST {_CHROMA}/reset": Access(ADMIN),
    f"POST {_CHROMA}/tenants": Access(MANAGE),
    f"GET {_TENANT}": Access(READ),
    f"GET {_TENANT}/databases": Access(READ),
    f"POST {_TENANT}/databases": Access(MANAGE),
    f"GET {_DATABASE}": Access(READ),
    f"DELETE {_DATABASE}": Access(MANAGE),
    f"GET {_DATABASE}/collections": Access(READ, Names.LISTED),
    f"POST {_DATABASE}/collections": Access(
        READ, Names.MADE_IN_DATABASE, also=(MANAGE, "unless it gets one that is there")
    ),
    f"GET {_DATABASE}/collections_count": Access(READ, Names.LISTED),
    f"GET {_DATABASE}/collections/{{name}}": Access(READ, Names.IN_DATABASE),
    f"DELETE {_DATABASE}/collections/{{name}}": Access(MANAGE, Names.IN_DATABASE),
    f"GET {_DATABASE}/collections/by-id/{{collection_id}}": Access(READ, Names.ID),
    f"PUT {_DATABASE}/collections/{{name}}": Access(MANAGE, Names.ID),
    f"POST {_RECORDS}/add": Access(WRITE, Names.ID),
    f"POST {_RECORDS}/upsert": Access(WRITE, Names.ID),
    f"POST {_RECORDS}/update": Access(WRITE, Names.ID),
    f"POST {_RECORDS}/delete": Access(WRITE, Names.ID),
    f"GET {_RECORDS}/count": Access(READ, Names.ID),
    f"POST {_RECORDS}/get": Access(READ, Names.ID),
    f"POST {_RECORDS}/query": Access(READ, Names.ID),
    f"GET {_RECORDS}/indexing_status": Access(READ, Names.ID),
    f"POST {_RECORDS}/search": Access(READ),
    f"POST {_RECORDS}/fork": Access(READ),
    f"GET {_RECORDS}/fork_count": Access(READ),
    f"POST {_RECORDS}/functions/attach": Access(READ),
    f"GET {_RECORDS}/functions/{{name}}": Access(READ),
    f"POST {_RECORDS}/attached_functions/{{name}}/detach": Access(READ),
    f"POST {_RECORDS}/conditional/get": Access(READ),
    f"POST {_RECORDS}/conditional/commit": Access(READ),
    "GET /api/v1/{rest}": Access(Door.PUBLIC),
    "POST /api/v1/{rest}": Access(Door.PUBLIC),
    "PUT /api/v1/{rest}": Access(Door.PUBLIC),
    "DELETE /api/v1/{rest}": Access(Door.PUBLIC),
    "GET /metrics": Access(METRICS),
    "GET /api/service/recent": Access(ADMIN),
    "GET /": Access(Door.KNOWN),
    "GET /health": Access(Door.PUBLIC),
    "GET /.well-known/oauth-protected-resource": Access(Door.PUBLIC),
    "GET /.well-known/oauth-protected-resource/mcp": Access(Door.PUBLIC),
    "GET /ready": Access(Door.PUBLIC),
    "GET /live": Access(Door.PUBLIC),
    "GET /openapi.json": Access(Door.PUBLIC),
    "GET /docs": Access(Door.PUBLIC),
    "GET /docs/assets/{file}": Access(Door.PUBLIC),
    "GET /docs/guide": Access(Door.PUBLIC),
    "GET /docs/guide/": Access(Door.PUBLIC),
    "GET /docs/guide/{file}": Access(Door.PUBLIC),
}
"""What each route asks for, by method and path. The pages of `/docs` and what they load are public: a browser cannot
give a key before it has the page, and the guide says how to get one."""

TOOLS: dict[str, Access] = {
    "rag_query": Access(READ, Names.CHOSEN),
    "rag_context": Access(READ, Names.CHOSEN),
    "rag_gather": Access(READ, Names.BODY),
    "rag_collections": Access(READ, Names.LISTED),
    "session_start": Access(WRITE),
    "session_note": Access(WRITE),
    "session_end": Access(WRITE),
    "rag_context_search": Access(READ, Names.CHOSEN),
    "rag_context_index": Access(WRITE),
    "rag_context_health": Access(READ),
    "rag_context_stats": Access(READ),
}
"""What each tool asks for, by MCP and, where it is there, over HTTP."""
