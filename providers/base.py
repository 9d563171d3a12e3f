"""The duty of every provider and the abilities of a provider of documents: one class for the duty, one for each
ability.

A provider can do what it implements: the capabilities that a user interface is shown are read off its class (contract
*storage*, "Provider Capabilities Declaration"). `docs/providers.md` shows a complete one. Filters come as the tree of
`schemas/where.py`, parsed and checked.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, ClassVar, Protocol, Self, TypeVar

import structlog

from providers.calibration import Calibration
from providers.cursors import through_pages
from providers.outbound.call_sizes import CallSizes, OwnCallSizes
from providers.outbound.network import Network
from providers.outbound.recognition import Sign
from providers.outbound.redaction import Redactor
from providers.storage_protocol import Storage
from schemas.bounds import MAX_PAGE
from schemas.configuration import JsonSchema, faults, tidied, with_defaults
from schemas.connections import HEALTHY, UNHEALTHY, CollectionInfo, HealthReport, InvalidConfigurationError
from schemas.errors import CollectionNotFoundError, RagError, UnsupportedError
from schemas.records import (
    Document,
    DocumentBatch,
    GatherSpec,
    Group,
    Match,
    Metadata,
    OrderBy,
    Page,
    Planned,
    TextMatch,
    Vector,
)
from schemas.where import EVERYTHING, Where

log = structlog.get_logger(__name__)

AbilityT = TypeVar("AbilityT")


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
    """The means that a connection gets from the program it lives in.

    `network` is the only way out: it refuses what the operator's policy does not allow. `storage` is the storage proxy
    of this process and `data_dir` its directory; either is None where the program has none. `redactor` knows the values
    of the connection's placeholders. `calibrations` are the operator's own, by the names of embedding models, and
    `call_sizes` what services were found to take in one call. A connection that is only being tried out (`is_trial`)
    leaves nothing on the disk but that. `service_id` tells the service that opens the connection from all others; it is
    empty in other programs.
    """

    network: Network = field(default_factory=Network)
    storage: Storage | None = None
    data_dir: Path | None = None
    redactor: Redactor = field(default_factory=Redactor)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    call_sizes: CallSizes = field(default_factory=OwnCallSizes)
    is_trial: bool = False
    service_id: str = ""


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
    """One kind of service that can be connected to. An instance is one connection, usable by several threads.

    `id` is its registered name and `kind` one of `schemas.connections.KINDS`. `limits` tells users what limits they
    may run into (`{"max_top_k": 1000}`), and `sign` is what such a service is recognised by, where it has one. A
    failure of the service is one of `schemas.errors`, with a `details.error_type` from
    `schemas.connections.ERROR_TYPES`.
    """

    kind: ClassVar[str]
    id: ClassVar[str]
    display_name: ClassVar[str]
    description: ClassVar[str] = ""
    limits: ClassVar[Mapping[str, Any]] = {}
    libraries: ClassVar[tuple[Library, ...]] = ()
    sign: ClassVar[Sign | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        """Have the errors of every public method cleaned of secrets, so that no provider can forget to."""
        super().__init_subclass__(**options)
        for name, asked in list(vars(cls).items()):
            if isinstance(asked, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _with_clean_errors(asked))

    def __init__(self, config: Mapping[str, Any], context: ProviderContext | None = None) -> None:
        """Check the configuration without contacting the service. Raises InvalidConfigurationError when it does not
        fit."""
        schema = self.connection_schema()
        wrong = faults(tidied(config), schema)
        if wrong:
            raise InvalidConfigurationError(self.id, wrong)
        self.config: dict[str, Any] = with_defaults(config, schema)
        self.context = context or ProviderContext()

    @classmethod
    @abstractmethod
    def connection_schema(cls) -> JsonSchema:
        """Return the JSON Schema (2020-12) of the configuration, which is an object.

        `schemas/configuration.py` says which annotations turn it into a form. The contract *storage* calls this
        `getConnectionSchema()`.
        """

    @classmethod
    def unavailable_because(cls) -> str | None:
        """Return why this provider cannot be used on this machine and what to do about it, None when it can."""
        missing = [library for library in cls.libraries if not library.is_here]
        if not missing:
            return None
        return f"{', '.join(library.module for library in missing)} is not installed: {missing[0].install}"

    @classmethod
    def damaged_because(cls) -> str | None:
        """Return what is wrong with the files that this provider reads on this machine, None when nothing is.

        It is asked before a service starts, and may take a second.
        """
        return None

    @classmethod
    def address(cls, config: Mapping[str, Any]) -> str | None:
        """Return the URL that a connection would be opened to, None when nothing leaves this machine's processes."""
        url = with_defaults(config, cls.connection_schema()).get("url")
        return url if isinstance(url, str) else None

    @abstractmethod
    def check(self) -> dict[str, Any]:
        """Ask the service, with the credentials, for a sign of life. Raise the error that says what is wrong.

        Return what it says of itself by name (`version`, `collections_count`, `storage_bytes`, …).
        """

    @abstractmethod
    def try_out(self) -> dict[str, Any]:
        """Do the least that the service is for, once, and return what came of it. Raise the error that says what is
        wrong."""

    def answered(self, within_seconds: float) -> dict[str, Any] | None:
        """Return what `check` would, with `age_seconds`, from the last answer given in use.

        Return None when that answer is older than `within_seconds`, was a failure, or is not known.
        """
        return None

    def health(self, *, recent_seconds: float = 0.0) -> HealthReport:
        """Return a report of what `check` says, or of what `answered` within `recent_seconds`. Never raise."""
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

    def close(self) -> None:  # noqa: B027 - a provider that holds nothing need not override it
        """Free sockets and memory. It may be called twice, and a later question opens again what it needs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Registry(Protocol):
    """The registry, as a provider's module sees it."""

    def register(self, provider: type[Provider]) -> None: ...


class RagProvider(Provider):
    """A provider of documents with embeddings, in collections."""

    kind = "rag"

    @abstractmethod
    def collections(self) -> list[CollectionInfo]:
        """Return all collections, sorted by name."""

    def collection(self, name: str) -> CollectionInfo:
        """Return the collection of that name. Raises CollectionNotFoundError when there is none."""
        for each in self.collections():
            if each.name == name:
                return each
        raise CollectionNotFoundError(name)

    def collections_named(self, names: Sequence[str]) -> list[CollectionInfo]:
        """Return the collections of these names that exist. A provider that can read them at once overrides this."""
        found = []
        for name in names:
            with suppress(CollectionNotFoundError):
                found.append(self.collection(name))
        return found

    def try_out(self) -> dict[str, Any]:
        found = self.collections()
        told = [{"name": each.name, "count": each.count, "metadata": each.metadata} for each in found]
        return {"collections_count": len(found), "collections": told}


class SupportsSearch(ABC):
    @abstractmethod
    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Where = EVERYTHING) -> list[Match]:
        """Return the nearest documents that match `where`, nearest first.

        `distance` is in the collection's metric and `score` is `schemas.scores.score`, the same for every provider.
        Filters need the capability `metadata_filtering`. Documents may have their embeddings, if these cost nothing.
        """


class TellsPlans(ABC):
    @abstractmethod
    def planned_search(self, collection: str, embedding: Vector, *, top_k: int, where: Where) -> Planned:
        """Return what `SupportsSearch.search` returns, the plan that found it, and the collection as it was then."""


class SupportsMetadataFiltering(ABC):
    @abstractmethod
    def documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        """Return one page of the documents that match, and how many match in all.

        `cursor` is the `next_cursor` of the page before. `position` and `revision` are 0 where the service has none.
        Raises UnsupportedError, which names the operator, for a filter that the service cannot express.
        """

    def all_documents(self, collection: str, where: Where = EVERYTHING) -> Iterator[Document]:
        """Yield all documents that match, read page by page as they are consumed."""

        def read(cursor: str | None) -> tuple[list[Document], str | None]:
            page = self.documents(collection, where, limit=MAX_PAGE, cursor=cursor)
            return page.documents, page.next_cursor

        return through_pages(read)

    @abstractmethod
    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        """Return the documents of these ids that exist, in the order of `ids`, which are 1,000 at most."""


class SupportsEmbeddings(ABC):
    """The ability to store documents with the embeddings they come with, and to delete them."""

    @abstractmethod
    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Where | None = None) -> bool:
        """Store documents, replacing those of the same id.

        Other documents that match `replace_where` are deleted in the same transaction or, where the service has no
        transactions, right afterwards. Reads and filters see the documents from then on, and so do vector queries,
        unless the provider's `limits` say otherwise. Return False when vector queries do not see all of them yet.
        """

    @abstractmethod
    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> None:
        """Delete the documents of these ids, or those that match `where`. Ids that do not exist are ignored."""


class SupportsConditionalWrites(ABC):
    @abstractmethod
    def add_documents_unless(self, collection: str, batch: DocumentBatch, unless: Where) -> bool:
        """Store documents as `add_documents` does, unless a document matches `unless`.

        Raises AlreadyThereError when one does, found in the same transaction; nothing is stored then.
        """


class SupportsDynamicCollections(ABC):
    @abstractmethod
    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        """Create a collection and return it. Raises ConflictError when the name is taken."""

    @abstractmethod
    def delete_collection(self, name: str) -> None:
        """Delete a collection with its documents. Raises CollectionNotFoundError when there is none of that name."""


class SupportsTextSearch(ABC):
    @abstractmethod
    def text_search(
        self, collection: str, query: str, *, top_k: int = 10, where: Where = EVERYTHING
    ) -> list[TextMatch]:
        """Return the documents that have words of a user's text, best first. No text is a syntax error."""


class SupportsGather(ABC):
    @abstractmethod
    def gather(self, collection: str, ids: Sequence[str], spec: GatherSpec) -> list[Group]:
        """Return the groups of these documents, in the order of `ids`, without those of documents that do not exist."""


class SupportsOrderBy(ABC):
    @abstractmethod
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
        """Return a page as `documents` does, in this order. Documents without the field come last, in any direction."""


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
    """Return what a provider of documents can do, in the words of the contract *storage*."""
    return [name for name, ability in CAPABILITIES.items() if issubclass(provider, ability)]


def required(provider: Provider, ability: type[AbilityT], able: Sequence[str] = ()) -> AbilityT:
    """Return the provider as one that has this ability.

    Raises UnsupportedError when it has not, naming the capability and the ids of the providers `able` to do it.
    """
    if isinstance(provider, ability):
        return provider
    name = next(name for name, kind in CAPABILITIES.items() if kind is ability)
    raise UnsupportedError(
        f"Provider '{provider.id}' cannot do '{name}'; {', '.join(able) or 'no provider'} can",
        code="capability_missing",
        provider=provider.id,
        capability=name,
        allowed=list(able),
    )


def _milliseconds_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 1)
