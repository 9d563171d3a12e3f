"""Everything that a provider in a package of its own imports, but for the contract tests (`providers.contract_tests`).

What is here keeps its name and meaning from release to release; other modules of this project may change with any.
`docs/providers.md` shows a complete provider.
"""

from __future__ import annotations

from providers.arguments import (
    check_dimension,
    check_selection,
    check_unfiltered,
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_name,
    checked_top_k,
    checked_vector,
    in_order,
    parts_of,
)
from providers.base import (
    Library,
    ProviderContext,
    RagProvider,
    Registry,
    SupportsConditionalWrites,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsGather,
    SupportsMetadataFiltering,
    SupportsOrderBy,
    SupportsSearch,
    SupportsTextSearch,
)
from providers.chat.base import ChatAnswer, ChatProvider, Piece
from providers.cursors import decode_offset, encode_cursor
from providers.embeddings.base import EmbeddingProvider, SupportsTokens
from providers.models import checked_model, models_of, one_model
from providers.outbound.json_client import Answer, Dialect, JsonClient, RetryPolicy
from providers.outbound.network import Network
from providers.outbound.recognition import Sign
from providers.rerank.base import RerankProvider
from providers.unsupported_filters import UnsupportedFilterError
from schemas.connections import ERROR_TYPES, CollectionInfo, HealthReport, ModelInfo
from schemas.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    ConflictError,
    InvalidInputError,
    RagError,
    UnavailableError,
    UnsupportedError,
)
from schemas.records import Document, DocumentBatch, GatherSpec, Group, Match, OrderBy, Page, TextMatch
from schemas.scores import rounded, score
from schemas.where import (
    EVERYTHING,
    And,
    Contains,
    Equals,
    Exists,
    HasId,
    In,
    Not,
    Or,
    Ordered,
    TextContains,
    TextMatches,
    Where,
    to_json,
)

__all__ = [
    "ERROR_TYPES",
    "EVERYTHING",
    "And",
    "Answer",
    "ChatAnswer",
    "ChatProvider",
    "CollectionInfo",
    "CollectionNotFoundError",
    "ConfigurationError",
    "ConflictError",
    "Contains",
    "Dialect",
    "Document",
    "DocumentBatch",
    "EmbeddingProvider",
    "Equals",
    "Exists",
    "GatherSpec",
    "Group",
    "HasId",
    "HealthReport",
    "In",
    "InvalidInputError",
    "JsonClient",
    "Library",
    "Match",
    "ModelInfo",
    "Network",
    "Not",
    "Or",
    "OrderBy",
    "Ordered",
    "Page",
    "Piece",
    "ProviderContext",
    "RagError",
    "RagProvider",
    "Registry",
    "RerankProvider",
    "RetryPolicy",
    "Sign",
    "SupportsConditionalWrites",
    "SupportsDynamicCollections",
    "SupportsEmbeddings",
    "SupportsGather",
    "SupportsMetadataFiltering",
    "SupportsOrderBy",
    "SupportsSearch",
    "SupportsTextSearch",
    "SupportsTokens",
    "TextContains",
    "TextMatch",
    "TextMatches",
    "UnavailableError",
    "UnsupportedError",
    "UnsupportedFilterError",
    "Where",
    "check_dimension",
    "check_selection",
    "check_unfiltered",
    "checked_batch",
    "checked_collection",
    "checked_ids",
    "checked_limit",
    "checked_model",
    "checked_name",
    "checked_top_k",
    "checked_vector",
    "decode_offset",
    "encode_cursor",
    "in_order",
    "models_of",
    "one_model",
    "parts_of",
    "rounded",
    "score",
    "to_json",
]
