"""The vectors of another model, made beside those of a collection: how far they are, and the next part of the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import orjson

from schemas.errors import ConflictError, NotFoundError
from schemas.records import Document, Metadata

EMBEDDED_BY = ("embedding_provider", "embedding_model", "embedding_connection")
"""The keys of a collection's metadata that say what made its vectors."""

EMBEDDING_FUNCTION = "embedding_function"
"""The key of what a client of Chroma configured that says what it embeds by."""


class Status(StrEnum):
    RUNNING = "running"
    FAILED = "failed"
    COMPLETE = "complete"
    """The collection is searched by the new vectors, and the old ones are kept."""


class ReembeddingNotFoundError(NotFoundError):
    """The collection has no vectors beside those that it is searched by."""

    code = "reembedding_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Collection '{name}' is not being re-embedded, and no old vectors of it are kept", collection=name
        )


class EmbeddingModelDiffersError(ConflictError):
    """The collection records another model than the one that made the vectors to be stored in it, or that a copy of it
    has, `given`, which is empty where nobody knows it."""

    code = "embedding_model_differs"

    def __init__(self, name: str, *, stored: object, given: str) -> None:
        if stored is None:
            sentence = f"Nothing says that collection '{name}' was embedded with '{given}'"
        else:
            rest = f", not with '{given}'" if given else ": nothing says that these vectors were, too"
            sentence = f"Collection '{name}' was embedded with '{stored}'{rest}"
        super().__init__(sentence, stored=stored, given=given)


class ReembeddedMeanwhileError(ConflictError):
    """The collection has vectors of another model by now than those that were to be stored in it."""

    code = "reembedded_meanwhile"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Collection '{name}' was re-embedded meanwhile: its vectors are of another model than these, which were "
            "not stored",
            collection=name,
        )


@dataclass(frozen=True, slots=True)
class Reembedding:
    """The state of a re-embedding. `connection` and `model` are those of the vectors that the collection is searched by
    once it is complete; the others those of the other ones, None where nobody noted them. `error` says why it
    failed, or why it does not get on. `can_go_back` says whether the old vectors still fit the documents."""

    collection: str
    status: Status
    connection: str | None
    model: str | None
    from_connection: str | None
    from_model: str | None
    documents: int
    documents_done: int
    error: str | None
    can_go_back: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the vectors beside a collection are, as it is kept in their metadata.

    Those of all documents up to the position `copied_to` are there, as the documents were at `revision`; of what was
    changed in the next one, up to the position `changed_to`. `switched_at` is the revision that the collection got when
    it was last switched, and `is_back` says that it was switched back then.
    """

    status: Status
    copied_to: int = 0
    revision: int = 0
    changed_to: int = 0
    error: str | None = None
    switched_at: int | None = None
    is_back: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """The next part of a re-embedding: `documents` to be embedded by `connection`, whose model was `model`.

    `stored` are those of them that have a new vector already, in the form that it was made of. `name` is what the
    catalogue calls the new vectors' collection, and `key` that collection's, which the next one of that name has not;
    `doomed` are ids that are to be deleted from it before. After this part the work has come from `before` to `after`,
    and `is_last` says whether nothing else was to be done at the collection's `revision`; `left` documents were to be
    done, or deleted, behind it. `erasures` is the count of erasures before it was read.
    """

    name: str
    key: int
    collection: str
    connection: str
    model: str
    documents: Sequence[Document]
    stored: Mapping[str, Document]
    doomed: Sequence[str]
    before: Mark
    after: Mark
    is_last: bool
    left: int
    revision: int
    erasures: int


def recorded_model(metadata: Metadata) -> str | None:
    """Return the model that a collection's metadata say made its vectors, None where they name none: a value that is no
    name says nothing."""
    return _name(metadata, "embedding_model")


def recorded_connection(metadata: Metadata) -> str | None:
    """Return the connection that embeds for a collection, as its metadata say; None where they name none."""
    return _name(metadata, "embedding_connection")


def _name(metadata: Metadata, key: str) -> str | None:
    named = metadata.get(key)
    return named if isinstance(named, str) and named else None


def embedded_by(metadata: Metadata) -> Metadata:
    """Return what a collection's metadata say of what made its vectors."""
    return {key: metadata[key] for key in EMBEDDED_BY if key in metadata}


def with_embedded_by(metadata: Metadata, source: Metadata) -> Metadata:
    """Return metadata that say of what made the vectors what `source` says."""
    return {key: value for key, value in metadata.items() if key not in EMBEDDED_BY} | embedded_by(source)


def with_function_of(configuration: str | None, other: str | None) -> str | None:
    """Return what a client of Chroma configured, as JSON, with the embedding function of another configuration, or with
    none: it belongs to the vectors."""
    if configuration is None:
        return None
    function = None if other is None else orjson.loads(other).get(EMBEDDING_FUNCTION)
    return orjson.dumps({**orjson.loads(configuration), EMBEDDING_FUNCTION: function}).decode()
