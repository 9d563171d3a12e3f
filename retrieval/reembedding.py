"""Gives collections the vectors of another model, in the background of one process of the service.

What is to be embedded, and how far that has come, is in the storage: a process that ends loses no more than the part
that it was at.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, cast

import numpy as np
import structlog

from providers.embeddings.base import EmbeddingProvider
from registry.connections import Connections
from registry.embedding.queries import QueryEmbeddings
from registry.stored_connections import ConnectionNotFoundError
from retrieval.ingest.drafts import first_words, text_to_embed
from retrieval.ingest.embedding_texts import TextNotEmbeddedError, embed_or_name
from retrieval.jobs.background_helper import BackgroundHelper
from schemas.access.callers import SERVICE, acting_as
from schemas.errors import ConfigurationError, ConflictError, InvalidInputError, RagError, UnavailableError
from schemas.giving_way import QUESTIONS
from schemas.records import Document, Vector
from schemas.storage.reembedding import Part

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often the leader looks for work that other processes were given, and the others whether there is a leader."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 60.0
STOP_SECONDS = 5.0
WATCHED_PARTS = 20
"""After how many parts that left no less to do a collection counts as written faster than it is embedded."""
BEHIND = "The collection is written faster than it is embedded: it gets the new vectors when its writers pause"
FINAL = (ConnectionNotFoundError, ConfigurationError, ConflictError, InvalidInputError)
"""What stays as it is until somebody changes the connection or the documents."""


Work = tuple[str, int]
"""The name and the key of what a re-embedding makes. The next one of a collection has the same name and another key."""


class Storage(Protocol):
    """The re-embeddings of the storage (`wrapper/stores/reembedding.py`)."""

    @property
    def leads(self) -> Callable[[], bool]: ...

    def under_way(self) -> dict[str, int]: ...

    def next_part(self, name: str) -> Part | None: ...

    def store(self, part: Part, vectors: Vector | None) -> bool: ...

    def tell(self, part: Part, error: str, *, is_final: bool) -> None: ...


class Reembedder:
    """The one thread of a service that re-embeds. `clock` returns seconds."""

    def __init__(
        self,
        storage: Storage,
        connections: Connections,
        embeddings: QueryEmbeddings,
        background: BackgroundHelper,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._connections = connections
        self._embeddings = embeddings
        self._background = background
        self._clock = clock
        self._pauses: dict[Work, tuple[float, float]] = {}
        """Until when a re-embedding rests, and for how long, after a part of it failed."""
        self._left: dict[Work, deque[int]] = {}
        """How many documents each of its last parts left to do."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="re-embedding", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the work after the call under way; it goes on after the next start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def step(self) -> bool:
        """Do the next part of each re-embedding. Return whether there was anything to do."""
        under_way: list[Work] = list(self._storage.under_way().items())
        self._pauses = {each: pause for each, pause in self._pauses.items() if each in under_way}
        self._left = {each: left for each, left in self._left.items() if each in under_way}
        with acting_as(SERVICE):
            worked = [self._work(each) for each in under_way if not self._stopping.is_set()]
        return any(worked)

    def _work(self, work: Work) -> bool:
        until, pause_seconds = self._pauses.get(work, (0.0, 0.0))
        part = self._storage.next_part(work[0]) if self._clock() >= until else None
        if part is None:
            return False
        try:
            if self._store(part, self._vectors(part)):
                log.info("re-embedded", collection=part.collection, model=part.model)
        except RagError as error:
            is_final = isinstance(error, FINAL)
            reason = error.message.replace(part.name, part.collection)
            event = "re-embedding failed" if is_final else "re-embedding waits"
            log.warning(event, collection=part.collection, reason=reason)
            # First: where the disk is full, nothing can be told either.
            pause_seconds = min(LONGEST_PAUSE_SECONDS, 2 * pause_seconds or FIRST_PAUSE_SECONDS)
            self._pauses[work] = self._clock() + pause_seconds, pause_seconds
            self._left.pop(work, None)
            with suppress(RagError):
                self._storage.tell(part, reason, is_final=is_final)
            return False
        self._pauses.pop(work, None)
        return True

    def _noted(self, part: Part) -> Part:
        """Return a part that tells, once it is stored, when the collection is written faster than it is embedded."""
        left = self._left.setdefault((part.name, part.key), deque(maxlen=WATCHED_PARTS))
        is_behind = len(left) == WATCHED_PARTS and part.left >= left[0]
        left.append(part.left)
        if not is_behind:
            return part
        if part.before.error != BEHIND:
            log.warning("re-embedding does not keep up", collection=part.collection, left=part.left)
        return replace(part, after=replace(part.after, error=BEHIND))

    def _vectors(self, part: Part) -> Vector | None:
        """Return the vectors of a part's documents: those that are stored of the same text, or new ones."""
        connection = cast(EmbeddingProvider, self._connections.open(part.connection, "embedding"))
        if connection.model != part.model:
            raise ConflictError(
                f"Connection '{part.connection}' embeds with '{connection.model}' by now, not with '{part.model}'"
            )
        texts = [_text_of(each) for each in part.documents]
        known = {text_to_embed(each.text, each.metadata): each.embedding for each in part.stored.values()}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known |= dict(zip(missing, self._embedded(part, connection, missing), strict=True))
        vectors = [vector for text in texts if (vector := known[text]) is not None]
        for document, vector in zip(part.documents, vectors, strict=True):
            if len(vector) != len(vectors[0]):
                dimensions = f"{len(vector)} dimensions, and of {len(vectors[0])} before"
                raise ConflictError(f"'{part.model}' makes a vector of {dimensions}: that of {_named(document)}")
        return np.stack(vectors) if vectors else None

    def _embedded(self, part: Part, connection: EmbeddingProvider, texts: Sequence[str]) -> Vector:
        """Embed texts of a part. Raises an error that names the document when one of them alone cannot be embedded:
        InvalidInputError when it is refused, else UnavailableError."""

        def embed(connection: EmbeddingProvider, texts: list[str]) -> Vector:
            if self._connections.address(self._connections.find(part.connection)) is None:
                return self._background.embed(connection, texts)
            return self._embeddings.embed_all(part.connection, texts)

        try:
            return embed_or_name(embed, connection, texts)
        except TextNotEmbeddedError as error:
            document = next((each for each in part.documents if _text_of(each) == error.text), None)
            if document is None:
                raise
            is_refused = isinstance(error, InvalidInputError)
            deed = "is refused" if is_refused else "cannot be embedded"
            sentence = f"{_named(document)} {deed} by connection '{part.connection}': {error.failure.message}"
            raise (InvalidInputError if is_refused else UnavailableError)(sentence) from error

    def _store(self, part: Part, vectors: Vector | None) -> bool:
        """Store a part. Raises InvalidInputError, which names the document, for a vector that cannot be stored."""
        try:
            return self._storage.store(self._noted(part), vectors)
        except InvalidInputError as error:
            if "index" not in error.details:
                raise
            named = _named(part.documents[error.details["index"]])
            raise InvalidInputError(f"{named} cannot be stored: {error.message}", code=error.code) from error

    def _run(self) -> None:
        while not self._stopping.is_set():
            is_busy = False
            try:
                with QUESTIONS.given_way():
                    is_busy = self._storage.leads() and self.step()
                if not is_busy:
                    self._background.rest()
            except RagError as error:
                log.warning("re-embedding waits", reason=error.message)
            except Exception:
                log.exception("a re-embedding failed in a way nobody expected")
            if not is_busy:
                self._stopping.wait(LOOK_SECONDS)


def _named(document: Document) -> str:
    return f"Document '{document.id}' ({first_words(document.text)})"


def _text_of(document: Document) -> str:
    """Return what the model reads of a document. Raises InvalidInputError when there is nothing to read."""
    text = text_to_embed(document.text, document.metadata)
    if not text.strip():
        raise InvalidInputError(f"Document '{document.id}' has no text, so no model can embed it")
    return text
