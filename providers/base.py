"""What every provider is, and what a provider of documents can do: one class for the duty, one for each ability.

What a provider can do is what it implements: the capabilities that a user interface is shown are read off its class
(seed 003, "Provider Capabilities Declaration"). `docs/providers.md` shows a complete one.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, ClassVar, Protocol, Self

import structlog

from providers.network import Network
from providers.redaction import Redactor
from providers.storage import Storage
from schemas.configuration import JsonSchema, faults, present, with_defaults
from schemas.connections import HEALTHY, UNHEALTHY, CollectionInfo, HealthReport, InvalidConfigurationError
from schemas.errors import CollectionNotFoundError, RagError
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

log = structlog.get_logger(__name__)

Filter = dict[str, Any]
"""A `where` filter as it is on the wire (`schemas/where.py` has its grammar)."""


@dataclass(frozen=True, slots=True)
class Library:
    """A module that a provider imports when it connects, and the command that installs it."""

    module: str
    install: str

    @property
    def is_here(self) -> bool:
        try:
            return importlib.util.find_spec(self.module) is not None
        except (ImportError, ValueError):
            return False


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a connection gets from the program it lives in.

    `network` is the only way out: it refuses what the operator's policy does not allow. `storage` is the storage proxy
    of this process and `data_dir` its directory, None where there is none. `redactor` knows what the connection's
    placeholders stand for. A connection that is only tried out (`is_trial`) leaves nothing behind on the disk.
    """

    network: Network = field(default_factory=Network)
    storage: Storage | None = None
    data_dir: Path | None = None
    redactor: Redactor = field(default_factory=Redactor)
    is_trial: bool = False


def _with_clean_errors(asked: Any) -> Any:
    @functools.wraps(asked)
    def ask(self: Provider, *args: Any, **kwargs: Any) -> Any:
        try:
            return asked(self, *args, **kwargs)
        except RagError as error:
            self.context.redactor.clean(error)
            raise

    return ask


class Provider(ABC):
    """One kind of service that can be connected to; an instance is one connection, usable by several threads.

    `id` is its registered name and `kind` one of `schemas.connections.KINDS`. `limits` tells users of what they may
    run into (`{"max_top_k": 1000}`). Failures of the service are `schemas.errors` whose `details.error_type` is one of
    `schemas.connections.ERROR_TYPES`.
    """

    kind: ClassVar[str]
    id: ClassVar[str]
    display_name: ClassVar[str]
    description: ClassVar[str] = ""
    limits: ClassVar[Mapping[str, Any]] = {}
    libraries: ClassVar[tuple[Library, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Have the errors of all that a provider is asked cleaned, so that none can forget to."""
        super().__init_subclass__(**options)
        for name, asked in list(vars(cls).items()):
            if isinstance(asked, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _with_clean_errors(asked))

    def __init__(self, config: Mapping[str, Any], context: ProviderContext | None = None) -> None:
        """Connect lazily: nothing is asked of the service yet. Raises InvalidConfigurationError."""
        schema = self.connection_schema()
        wrong = faults(present(config), schema)
        if wrong:
            raise InvalidConfigurationError(self.id, wrong)
        self.config: dict[str, Any] = with_defaults(config, schema)
        self.context = context or ProviderContext()

    @classmethod
    @abstractmethod
    def connection_schema(cls) -> JsonSchema:
        """The JSON Schema (2020-12) of the configuration, an object; `schemas/configuration.py` says which annotations
        make a form of it. On the wire this is `getConnectionSchema()` (seed 003)."""

    @classmethod
    def unavailable_because(cls) -> str | None:
        """Why it cannot be used on this machine, with what to do about it; None when it can."""
        missing = [library for library in cls.libraries if not library.is_here]
        if not missing:
            return None
        return f"{', '.join(library.module for library in missing)} is not installed: {missing[0].install}"

    @classmethod
    def damaged_because(cls) -> str | None:
        """What is wrong with the files that it reads on this machine, which may take a second to find out; None when
        nothing is. Asked before a service starts."""
        return None

    @classmethod
    def address(cls, config: Mapping[str, Any]) -> str | None:
        """The URL that a connection would be opened to, None when nothing leaves this machine's processes."""
        url = with_defaults(config, cls.connection_schema()).get("url")
        return url if isinstance(url, str) else None

    @abstractmethod
    def check(self) -> dict[str, Any]:
        """Ask the service for a sign of life, with the credentials: what it says of itself, by name (`version`,
        `collections_count`, `storage_bytes`, …). Raises what is wrong."""

    @abstractmethod
    def try_out(self) -> dict[str, Any]:
        """Do once the least of what it is for, and tell what came of it. Raises what is wrong."""

    def answered(self, within_seconds: float) -> dict[str, Any] | None:
        """What `check` would say, and `age_seconds`, by the last answer that was given in use; None when that is older,
        or failed, or nothing is known of it."""
        return None

    def health(self, *, recent_seconds: float = 0.0) -> HealthReport:
        """What `check` says, as a report; never raises. What `answered` within `recent_seconds` does as well."""
        began = time.perf_counter()
        details: dict[str, Any] = {}
        error: str | None = None
        recent = self.answered(recent_seconds)
        try:
            details = self.check() if recent is None else recent
        except RagError as failure:
            error = failure.message
            details = {"error_type": failure.details.get("error_type", "unknown")}
        except Exception:
            log.exception("a health check failed in a way of its own", provider=self.id)
            error = "The check failed for a reason that is in the log"
            details = {"error_type": "unknown"}
        took = {"response_time_ms": _milliseconds_since(began)} if recent is None else {}
        details = {"url": self.address(self.config), **took, **details}
        return HealthReport(
            status=UNHEALTHY if error else details.pop("status", HEALTHY),
            provider=self.id,
            timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
            message=self.context.redactor(error or f"{self.display_name} answers"),
            error=self.context.redactor(error),
            details=self.context.redactor(details),
        )

    def close(self) -> None:  # noqa: B027 - what holds nothing has nothing to free
        """Free sockets or memory. May be called twice; what is asked later opens again what it needs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Registry(Protocol):
    """What a provider's module registers with."""

    def register(self, provider: type[Provider]) -> None: ...


class RagProvider(Provider):
    """A provider of documents with embeddings, in collections."""

    kind = "rag"

    @abstractmethod
    def collections(self) -> list[CollectionInfo]:
        """All of them, by name."""

    def collection(self, name: str) -> CollectionInfo:
        """Raises CollectionNotFoundError."""
        for each in self.collections():
            if each.name == name:
                return each
        raise CollectionNotFoundError(name)

    def try_out(self) -> dict[str, Any]:
        found = self.collections()
        told = [{"name": each.name, "count": each.count, "metadata": each.metadata} for each in found]
        return {"collections_count": len(found), "collections": told}


class SupportsSearch(ABC):
    @abstractmethod
    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Filter | None = None) -> list[Match]:
        """The nearest documents, nearest first; `distance` in the collection's metric and `score` by
        `schemas.scores.score`, the same for every provider. `where` needs the capability `metadata_filtering`."""


class SupportsMetadataFiltering(ABC):
    @abstractmethod
    def documents(
        self,
        collection: str,
        where: Filter | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        """One page of the documents that match, and how many there are in all. `cursor` is the last page's
        `next_cursor`. `position` and `revision` are 0 where the service has none. A filter that the service cannot
        express is an UnsupportedError which names its operator."""

    @abstractmethod
    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        """Those of at most 1,000 documents that exist, in the order of `ids`."""


class SupportsEmbeddings(ABC):
    """Stores documents with the embeddings they come with."""

    @abstractmethod
    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Filter | None = None) -> bool:
        """Store documents, replacing those of the same id. What matches `replace_where` and is not among them is
        deleted, together with it or, where the service has no transactions, right after it. Reads and filters see it
        from then on, and so do vector queries, unless the provider's `limits` say otherwise; False when they do not see
        all of it yet."""

    @abstractmethod
    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Filter | None = None
    ) -> None:
        """Delete by ids or by filter, whatever of it exists."""


class SupportsConditionalWrites(ABC):
    @abstractmethod
    def add_documents_unless(self, collection: str, batch: DocumentBatch, unless: Filter) -> bool:
        """Like `add_documents`, but raise AlreadyThereError and store nothing when a document matches `unless`: looked
        for in the same transaction."""


class SupportsDynamicCollections(ABC):
    @abstractmethod
    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        """Raises ConflictError when the name is taken."""

    @abstractmethod
    def delete_collection(self, name: str) -> None:
        """Raises CollectionNotFoundError."""


class SupportsTextSearch(ABC):
    @abstractmethod
    def text_search(
        self, collection: str, query: str, *, top_k: int = 10, where: Filter | None = None
    ) -> list[TextMatch]:
        """The documents with the words of a user's text, best first. No text is a syntax error."""


class SupportsGather(ABC):
    @abstractmethod
    def gather(self, collection: str, ids: Sequence[str], spec: GatherSpec) -> list[Group]:
        """The whole groups of these documents, in the order of `ids`."""


class SupportsOrderBy(ABC):
    @abstractmethod
    def ordered_documents(
        self,
        collection: str,
        where: Filter | None = None,
        *,
        order_by: Sequence[OrderBy],
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        """Like `documents`, in this order; documents without the field come last, whatever the direction."""


CAPABILITIES: Mapping[str, type] = {
    "collections": RagProvider,
    "search": SupportsSearch,
    "embeddings": SupportsEmbeddings,
    "metadata_filtering": SupportsMetadataFiltering,
    "dynamic_collections": SupportsDynamicCollections,
    "text_search": SupportsTextSearch,
    "gather": SupportsGather,
    "order_by": SupportsOrderBy,
}


def capabilities(provider: type[Provider]) -> list[str]:
    """What a provider of documents can do, by the words of seed 003; the other kinds do one thing."""
    return [name for name, ability in CAPABILITIES.items() if issubclass(provider, ability)]


def _milliseconds_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 1)
