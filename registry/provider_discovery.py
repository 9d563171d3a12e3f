"""Discovery of providers: our own by module name, those of other packages by the entry-point group `rag.providers`.

Both are registered in the same way: by a function `register(registry)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import structlog

from registry.provider_registry import ProviderRegistry
from schemas.errors import RagError

log = structlog.get_logger(__name__)

GROUP = "rag.providers"


class Builtin(NamedTuple):
    """One of our modules, and the kind and id to list its provider under when it cannot be imported."""

    kind: str
    id: str
    module: str


BUILTINS = (
    Builtin("rag", "local", "providers.local"),
    Builtin("rag", "chromadb-wrapper", "providers.rag_wrapper.provider"),
    Builtin("rag", "chromadb", "providers.chroma.provider"),
    Builtin("rag", "qdrant", "providers.qdrant.provider"),
    Builtin("embedding", "minilm", "providers.embeddings.minilm"),
    Builtin("embedding", "openai", "providers.embeddings.openai"),
    Builtin("embedding", "ollama", "providers.embeddings.ollama"),
    Builtin("llm", "ollama", "providers.chat.ollama"),
    Builtin("llm", "openai", "providers.chat.openai"),
    Builtin("rerank", "cohere", "providers.rerank.cohere"),
    Builtin("rerank", "tei", "providers.rerank.tei"),
)


def discover(
    registry: ProviderRegistry, builtins: Iterable[Builtin] = BUILTINS, strangers: Iterable[EntryPoint] | None = None
) -> ProviderRegistry:
    """Register our own providers, then those of installed packages (by default, of every package in the group).

    The name of a foreign entry point is the kind and id of its provider, `rag.pinecone`, or the id alone for a provider
    of documents. A provider that cannot be imported or is refused stays listed with the reason; the others still work.
    """
    for builtin in builtins:
        try:
            import_module(builtin.module).register(registry)
        except ImportError as error:
            registry.register_missing(builtin.kind, builtin.id, f"{error.name or builtin.module} cannot be imported")
    for stranger in installed_strangers() if strangers is None else strangers:
        _register_stranger(registry, stranger)
    return registry


@cache
def installed_strangers() -> tuple[EntryPoint, ...]:
    """Return what the installed packages have in the group. To look through all of them takes a while, and they stay as
    they are while a process runs."""
    return tuple(entry_points(group=GROUP))


def _register_stranger(registry: ProviderRegistry, stranger: EntryPoint) -> None:
    kind, dot, name = stranger.name.partition(".")
    if not dot:
        kind, name = "rag", stranger.name
    try:
        stranger.load()(registry)
        return
    except ImportError as error:
        package = stranger.dist.name if stranger.dist else stranger.value
        reason = f"it needs the module '{error.name}': pip install {error.name} (it comes with the package {package})"
    except RagError as error:
        reason = error.message
    except Exception as error:
        reason = f"its registration failed: {type(error).__name__}"
    log.warning("a provider cannot be used", provider=stranger.name, reason=reason, exc_info=True)
    try:
        registry.register_missing(kind, name, reason)
    except RagError:
        log.warning("and it has the name of another one", provider=stranger.name)
