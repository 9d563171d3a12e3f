"""The settings of retrieval: chunks, ingestion, search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from environs import ValidationError, validate

from schemas.errors import ConfigurationError, InvalidInputError
from schemas.names import check_collection_name
from schemas.settings.environment import LONGEST_KEPT_SECONDS, OneWordOf, environment, seal
from schemas.ways import CHUNKINGS, FUSIONS, SECTIONS, SMOOTHED

SEARCH, MEANING = "search", "meaning"
"""How a chat finds passages: by the search of the service, or by meaning alone, as the contract *documents* has it."""
SAY_SO, ANSWER = "say_so", "answer"
"""What a chat with retrieval does when no passage is relevant: it says so, or the model answers without any."""


@dataclass(frozen=True)
class RetrievalSettings:
    """The settings of retrieval. Each field is set by the variable `RAG_` plus its name in capitals.

    Defaults that a contract states are that contract's.
    """

    documents_collection: str = "rag-documents"  # where files and the texts of `/api/rag/ingest` are stored
    rules_collection: str = "rag-rules"  # where `/api/rag/documents:batch` stores
    context_collection: str = "rag-context"  # where the tool `rag_context_index` stores
    notes_collection: str = "rag-notes"  # notes of sessions, the persona's knowledge
    context_categories: tuple[str, ...] = ("strategy", "bugfix", "architecture", "casino")
    context_content_types: tuple[str, ...] = ("chat", "decision", "code", "documentation")
    doc_types: tuple[str, ...] = ("core-rules", "faq", "team-rules", "ops", "killzone")
    chunking: str = SECTIONS  # how files are split: at headings, into overlapping windows, or not as long as they fit
    chunk_max_tokens: int = 1024  # the longest window; all windows but the last have at least half of it
    chunk_overlap_tokens: int = 100  # most that neighbouring windows share; they share at least half of it
    whole_max_tokens: int = 8192  # longest document of `/api/rag/documents:batch` that stays one chunk
    whole_header_level: int = 2  # heading level at which a longer document is split
    whole_fallback_header_level: int = 3  # heading level at which a section that is still longer is split
    retrieve_max_chunks: int = 5  # most results of `/api/rag/retrieve`, unless a question says otherwise
    retrieve_min_relevance: float | None = None  # least relevance of these, unless a question says so; None: the next
    min_relevance: float | None = None  # least relevance where an answer is to be relevant; None: the model's own
    fusion: str = SMOOTHED  # how the answers of several oracles are fused, unless a question says otherwise
    rrf_k: int = 60  # the constant of reciprocal rank fusion
    fetch_multiplier: int = 2  # each oracle is asked for this many times the limit
    fetch_min: int = 100  # each oracle is asked for at least this many documents
    search_collections: int = 100  # most collections per question, beside those it names in full
    cache_ttl_seconds: float = 300.0  # how long an answer of `/api/rag/retrieve` is reused
    retrieve_seconds: float = 10.0  # time limit of embedding a question, and of the oracles of a search
    mcp_write: bool = False  # whether `/mcp`, which language models are given, offers tools that write
    context_vector_seconds: float = 1.2  # time limit of level 1 of `rag_context_search`: embedding and vector search
    context_text_seconds: float = 0.4  # time limit of level 2: the search by words
    text_fallback: bool = True  # off: level 2 counts as failed
    breaker_threshold: int = 5  # failed searches until the circuit breaker opens
    breaker_timeout_seconds: float = 60.0  # wait after the last failure until it lets one search try again
    chat_retrieval: str = SEARCH  # how a chat finds passages
    chat_without_sources: str = SAY_SO  # what a chat with retrieval does when no passage is relevant
    chat_show_thoughts: bool = False  # whether what a chat model thinks is told, apart from its answer
    log_queries: bool = True  # whether the log and the metrics of single searches contain the questions
    metrics_days: int = 30  # how long the metrics of single searches are kept
    upload_file_mb: int = 64  # largest file of an upload
    upload_spool_mb: int = 4096  # most that the files of all waiting jobs take on the disk
    jobs_waiting: int = 1000  # most jobs that wait
    files_mb: int = 10_240  # most that the kept files of one owner take on the disk
    chat_days: int = 90  # how long a conversation is kept after its last message
    jobs_days: int = 7  # how long jobs that have ended are kept
    keep_originals: bool = False  # whether uploaded files are kept beside the documents made of them
    read_seconds: float = 60.0  # computing time of parsing a file, and two more for each megabyte
    read_memory_mb: int = 1024  # address space of the process that parses a file
    read_output_mb: int = 64  # most text that a file may make
    ocr_data: str = ""  # folder with data of further languages for recognising text in pictures
    ocr_languages: str = ""  # the languages that are recognised; empty: all whose data are there

    @property
    def chat_says_so(self) -> bool:
        """Whether a chat with retrieval that found no relevant passage says so instead of asking the model."""
        return self.chat_without_sources.lower() == SAY_SO

    @property
    def chat_by_meaning(self) -> bool:
        """Whether a chat finds passages by meaning alone."""
        return self.chat_retrieval.lower() == MEANING

    @property
    def whole_levels(self) -> tuple[int, int]:
        return self.whole_header_level, self.whole_fallback_header_level

    @property
    def other_doc_type(self) -> str:
        """The `doc_type` shown for chunks that have none of the settings': the one that claims the least."""
        return "faq" if "faq" in self.doc_types else self.doc_types[-1]

    @property
    def own_collections(self) -> tuple[str, ...]:
        """The collections that the contracts store in."""
        return (self.documents_collection, self.rules_collection, self.context_collection)


def _is_name(value: str) -> None:
    try:
        check_collection_name(value)
    except InvalidInputError as error:
        raise ValidationError(error.message) from None


def read_retrieval_settings() -> RetrievalSettings:
    """Read the settings from this process's environment. Raises ConfigurationError naming every wrong variable."""
    env = environment()
    default = RetrievalSettings()
    name, tokens = _is_name, validate.Range(min=16, max=1_000_000)
    share = validate.Range(min=0, max=1)
    values: dict[str, Any] = {
        "documents_collection": env.str("DOCUMENTS_COLLECTION", default.documents_collection, validate=name),
        "rules_collection": env.str("RULES_COLLECTION", default.rules_collection, validate=name),
        "context_collection": env.str("CONTEXT_COLLECTION", default.context_collection, validate=name),
        "notes_collection": env.str("NOTES_COLLECTION", default.notes_collection, validate=name),
        "doc_types": env.list("DOC_TYPES", list(default.doc_types), validate=validate.Length(min=1)),
        "context_categories": env.list(
            "CONTEXT_CATEGORIES", list(default.context_categories), validate=validate.Length(min=1)
        ),
        "context_content_types": env.list(
            "CONTEXT_CONTENT_TYPES", list(default.context_content_types), validate=validate.Length(min=1)
        ),
        "chunking": env.str("CHUNKING", default.chunking, validate=OneWordOf(CHUNKINGS)),
        "chunk_max_tokens": env.int("CHUNK_MAX_TOKENS", default.chunk_max_tokens, validate=tokens),
        "chunk_overlap_tokens": env.int(
            "CHUNK_OVERLAP_TOKENS", default.chunk_overlap_tokens, validate=validate.Range(min=0)
        ),
        "whole_max_tokens": env.int("WHOLE_MAX_TOKENS", default.whole_max_tokens, validate=tokens),
        "whole_header_level": env.int(
            "WHOLE_HEADER_LEVEL", default.whole_header_level, validate=validate.Range(min=1, max=5)
        ),
        "whole_fallback_header_level": env.int(
            "WHOLE_FALLBACK_HEADER_LEVEL", default.whole_fallback_header_level, validate=validate.Range(min=2, max=6)
        ),
        "retrieve_max_chunks": env.int(
            "RETRIEVE_MAX_CHUNKS", default.retrieve_max_chunks, validate=validate.Range(min=1, max=100)
        ),
        "retrieve_min_relevance": env.float("RETRIEVE_MIN_RELEVANCE", default.retrieve_min_relevance, validate=share),
        "min_relevance": env.float("MIN_RELEVANCE", default.min_relevance, validate=share),
        "fusion": env.str("FUSION", default.fusion, validate=validate.OneOf(FUSIONS)),
        "rrf_k": env.int("RRF_K", default.rrf_k, validate=validate.Range(min=1, max=10_000)),
        "fetch_multiplier": env.int(
            "FETCH_MULTIPLIER", default.fetch_multiplier, validate=validate.Range(min=1, max=100)
        ),
        "fetch_min": env.int("FETCH_MIN", default.fetch_min, validate=validate.Range(min=1, max=1_000)),
        "search_collections": env.int(
            "SEARCH_COLLECTIONS", default.search_collections, validate=validate.Range(min=1, max=10_000)
        ),
        "cache_ttl_seconds": env.float(
            "CACHE_TTL_SECONDS", default.cache_ttl_seconds, validate=validate.Range(min=0, max=LONGEST_KEPT_SECONDS)
        ),
        "retrieve_seconds": env.float(
            "RETRIEVE_SECONDS", default.retrieve_seconds, validate=validate.Range(min=0.1, max=600)
        ),
        "mcp_write": env.bool("MCP_WRITE", default.mcp_write),
        "context_vector_seconds": env.float(
            "CONTEXT_VECTOR_SECONDS", default.context_vector_seconds, validate=validate.Range(min=0.05, max=600)
        ),
        "context_text_seconds": env.float(
            "CONTEXT_TEXT_SECONDS", default.context_text_seconds, validate=validate.Range(min=0.05, max=600)
        ),
        "text_fallback": env.bool("TEXT_FALLBACK", default.text_fallback),
        "breaker_threshold": env.int(
            "BREAKER_THRESHOLD", default.breaker_threshold, validate=validate.Range(min=1, max=1_000_000)
        ),
        "breaker_timeout_seconds": env.float(
            "BREAKER_TIMEOUT_SECONDS",
            default.breaker_timeout_seconds,
            validate=validate.Range(min=0, max=LONGEST_KEPT_SECONDS),
        ),
        "chat_retrieval": env.str("CHAT_RETRIEVAL", default.chat_retrieval, validate=OneWordOf((SEARCH, MEANING))),
        "chat_without_sources": env.str(
            "CHAT_WITHOUT_SOURCES", default.chat_without_sources, validate=OneWordOf((SAY_SO, ANSWER))
        ),
        "chat_show_thoughts": env.bool("CHAT_SHOW_THOUGHTS", default.chat_show_thoughts),
        "log_queries": env.bool("LOG_QUERIES", default.log_queries),
        "metrics_days": env.int("METRICS_DAYS", default.metrics_days, validate=validate.Range(min=1, max=36_500)),
        "upload_file_mb": env.int("UPLOAD_FILE_MB", default.upload_file_mb, validate=validate.Range(min=1, max=10_000)),
        "upload_spool_mb": env.int("UPLOAD_SPOOL_MB", default.upload_spool_mb, validate=validate.Range(min=1)),
        "jobs_waiting": env.int("JOBS_WAITING", default.jobs_waiting, validate=validate.Range(min=1, max=100_000)),
        "files_mb": env.int("FILES_MB", default.files_mb, validate=validate.Range(min=1)),
        "chat_days": env.int("CHAT_DAYS", default.chat_days, validate=validate.Range(min=1, max=36_500)),
        "jobs_days": env.int("JOBS_DAYS", default.jobs_days, validate=validate.Range(min=1, max=36_500)),
        "keep_originals": env.bool("KEEP_ORIGINALS", default.keep_originals),
        "read_seconds": env.float("READ_SECONDS", default.read_seconds, validate=validate.Range(min=1, max=86_400)),
        "read_memory_mb": env.int("READ_MEMORY_MB", default.read_memory_mb, validate=validate.Range(min=256)),
        "read_output_mb": env.int("READ_OUTPUT_MB", default.read_output_mb, validate=validate.Range(min=1, max=1024)),
        "ocr_data": env.str("OCR_DATA", default.ocr_data),
        "ocr_languages": env.str("OCR_LANGUAGES", default.ocr_languages),
    }
    seal(env)
    values["chunking"] = values["chunking"].lower()
    for field in ("doc_types", "context_categories", "context_content_types"):
        values[field] = tuple(part.strip() for part in values[field] if part.strip())
        if not values[field]:
            raise ConfigurationError(f"Wrong settings: RAG_{field.upper()} names nothing")
    settings = RetrievalSettings(**values)
    if settings.chunk_overlap_tokens > settings.chunk_max_tokens // 4:
        sentence = "RAG_CHUNK_OVERLAP_TOKENS is more than a quarter of RAG_CHUNK_MAX_TOKENS"
        raise ConfigurationError(f"Wrong settings: {sentence}")
    if settings.whole_header_level >= settings.whole_fallback_header_level:
        raise ConfigurationError(
            "Wrong settings: RAG_WHOLE_FALLBACK_HEADER_LEVEL must be a higher number than RAG_WHOLE_HEADER_LEVEL"
        )
    return settings
