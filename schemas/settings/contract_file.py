"""The sections of the contract *rules*' `config/rag.yaml` ("Configuration"), as settings of this service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.errors import ConfigurationError

SETTING_OF: Mapping[str, Mapping[str, str]] = {
    "embedding": {"provider": "EMBEDDING_PROVIDER", "url": "EMBEDDING_URL", "model": "EMBEDDING_MODEL"},
    "chunking": {
        "max_chunk_tokens": "WHOLE_MAX_TOKENS",
        "header_level": "WHOLE_HEADER_LEVEL",
        "fallback_header_level": "WHOLE_FALLBACK_HEADER_LEVEL",
    },
    "retrieval": {
        "max_chunks": "RETRIEVE_MAX_CHUNKS",
        "min_relevance": "RETRIEVE_MIN_RELEVANCE",
        "cache_ttl_seconds": "CACHE_TTL_SECONDS",
    },
}
"""The setting that each name of the file stands for, by section."""
ONLY_WAY: Mapping[str, Mapping[str, Any]] = {"chunking": {"split_only_when_needed": True, "overlap_tokens": 0}}
"""Names that the file may give with this value only; the service always works like this."""
OF_THE_MODEL = ("dimensions", "max_tokens")
"""Names that describe the embedding model of the contract; here the model tells its dimension itself."""
CONTRACTS_PROVIDER = "openai"


def without_sections(content: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a configuration file's content with its sections as settings.

    Raises ConfigurationError, naming what is wrong, when a section cannot be used.
    """
    flat = {name: value for name, value in content.items() if name not in SETTING_OF}
    for section in SETTING_OF:
        told = content.get(section)
        if told is None:
            continue
        if not isinstance(told, dict):
            raise ConfigurationError(f"{section} must map names to values")
        flat |= _settings(section, told)
    embedding = content.get("embedding") or {}
    if "model" in embedding and "provider" not in embedding:
        flat.setdefault("EMBEDDING_PROVIDER", CONTRACTS_PROVIDER)
    limit = embedding.get("max_tokens")
    if limit is not None:
        longest = flat.setdefault("WHOLE_MAX_TOKENS", limit)
        if isinstance(longest, int) and isinstance(limit, int) and longest > limit:
            raise ConfigurationError(
                f"chunking.max_chunk_tokens ({longest}) is more than embedding.max_tokens ({limit})"
            )
    return flat


def _settings(section: str, told: Mapping[Any, Any]) -> dict[str, Any]:
    known, only = SETTING_OF[section], ONLY_WAY.get(section, {})
    described = OF_THE_MODEL if section == "embedding" else ()
    for name, value in told.items():
        if name in only and (value != only[name] or isinstance(value, bool) is not isinstance(only[name], bool)):
            raise ConfigurationError(f"{section}.{name} can be nothing but {only[name]} here")
        if name not in known and name not in only and name not in described:
            allowed = sorted((*known, *only, *described))
            raise ConfigurationError(f"There is no setting '{section}.{name}'", allowed=allowed)
    return {known[name]: value for name, value in told.items() if name in known}
