"""Finding providers: our own by name, everybody else's by the entry-point group `rag.providers`.

Both come in by the same door: a module with a function `register(registry)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import structlog

from registry.registry import ProviderRegistry
from schemas.errors import RagError

log = structlog.get_logger(__name__)

GROUP = "rag.providers"


class Builtin(NamedTuple):
    """A module of ours, and what its provider is called when it cannot be imported."""

    kind: str
    id: str
    module: str


BUILTINS = (
    Builtin("rag", "local", "providers.local"),
    Builtin("rag", "chromadb-wrapper", "providers.chromadb_wrapper"),
    Builtin("rag", "chromadb", "providers.chromadb"),
    Builtin("rag", "qdrant", "providers.qdrant"),
    Builtin("embedding", "minilm", "providers.embeddings.minilm"),
    Builtin("embedding", "openai", "providers.embeddings.openai"),
    Builtin("embedding", "ollama", "providers.embeddings.ollama"),
    Builtin("llm", "ollama", "providers.chat.ollama"),
    Builtin("llm", "openai", "providers.chat.openai"),
)


def discover(
    registry: ProviderRegistry, builtins: Iterable[Builtin] = BUILTINS, strangers: Iterable[EntryPoint] | None = None
) -> ProviderRegistry:
    """Register our own providers, then those of installed packages (by default all that announce themselves).

    A stranger's name is its kind and id, `rag.pinecone`, or only the id for a provider of documents. One that cannot
    be imported or is refused stays listed with the reason, and harms nobody else.
    """
    for builtin in builtins:
        try:
            import_module(builtin.module).register(registry)
        except ImportError as error:
            registry.register_missing(builtin.kind, builtin.id, f"{error.name or builtin.module} cannot be imported")
    for stranger in entry_points(group=GROUP) if strangers is None else strangers:
        _register_stranger(registry, stranger)
    return registry


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
