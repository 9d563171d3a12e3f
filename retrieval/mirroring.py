"""Keep a collection as a copy of one of another service, by the changes that the other service tells.

How far the copy has come is in its own metadata, under `mirror`, and is written after the documents that it tells of.
Whatever ends in between, these changes are applied again, which does no harm. Whatever takes the copy along, a backup
or a rename, takes that along, too: a copy that was restored goes on from where it was then.

A copy that begins anew keeps what it has until it knows what the source does not have any more, unless the source has
vectors of another model by now: then it is emptied first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import orjson

from schemas.errors import CollectionNotFoundError, ConflictError, GoneError, InvalidInputError
from schemas.storage.reembedding import MIRRORED, EmbeddingModelDiffersError, copy_of, recorded_model

BEGINNING = 0
PLACE = ("next", "as_of", "history")
"""What the last line of changes has that the next request takes."""
STORED_AT_ONCE = 500
BYTES_AT_ONCE = 4 << 20
DELETED_AT_ONCE = 5_000

Body = dict[str, Any]


class Source(Protocol):
    """The methods of the other service that a mirror uses."""

    def collection(self, name: str) -> Body: ...

    def changes(
        self, name: str, place: Body, *, embedding_model: str, wait_seconds: int = 0
    ) -> AbstractContextManager[Iterator[Body]]: ...


class Target(Protocol):
    """The methods of the service with the copy that a mirror uses."""

    def collection(self, name: str) -> Body: ...

    def ensure_collection(self, name: str, metadata: Body, *, metric: str | None = None) -> Body: ...

    def replace_metadata(self, name: str, metadata: Body) -> Body: ...

    def add_lines(self, name: str, lines: Sequence[bytes]) -> Body: ...

    def delete_documents(self, name: str, *, ids: Sequence[str]) -> int: ...

    def empty_collection(self, name: str) -> Body: ...

    def documents(self, name: str, *, include: Sequence[str] = ()) -> Iterator[Body]: ...


class SourceMissingError(CollectionNotFoundError):
    """The source is not there. Whoever makes it anew may be about to."""


@dataclass(slots=True)
class Step:
    """What a step has done to the copy: documents stored, deleted and compared without a difference, and the source's
    revision that it has come to. `more` says whether there is more to be done already."""

    stored: int = 0
    deleted: int = 0
    unchanged: int = 0
    revision: int = BEGINNING
    more: bool = False


@dataclass(slots=True)
class Renewal:
    """A copy that has documents and begins anew: how far it has come, and the ids that the source has by then."""

    place: Body = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)


class Mirror:
    """Keeps the collection `name` of `target` as the collection `of` of `source`, which is the service at `url`. Nobody
    else writes to it."""

    def __init__(self, source: Source, url: str, of: str, target: Target, name: str) -> None:
        self._source = source
        self._url = url
        self._of = of
        self._target = target
        self._name = name
        self._renewal: Renewal | None = None

    def step(self, wait_seconds: int = 0) -> Step:
        """Take the next changes over, and wait that long for some. Make the copy when it is missing.

        Raises SourceMissingError when there is no source, and ConflictError when the collection is no copy of it or
        cannot be one.
        """
        with _missing(self._of):
            source = self._source.collection(self._of)
        metadata = _described(source) | {MIRRORED: self._mark(source, {})}
        self._target.ensure_collection(self._name, metadata, metric=source["metric"])
        copy = self._target.collection(self._name)
        place = self._place(source, copy)
        model = recorded_model(source["metadata"]) or ""
        if copy["count"] and (recorded_model(copy["metadata"]) or "") != model:
            return self._emptied(source, copy)
        with ExitStack() as stack:
            try:
                with _missing(self._of):
                    told = self._source.changes(self._of, place, embedding_model=model, wait_seconds=wait_seconds)
                    changes = stack.enter_context(told)
            except ConflictError as error:
                if error.code != EmbeddingModelDiffersError.code:
                    raise
                return Step(more=True)  # the source has been switched to another model since it was described
            except GoneError:
                if not place:
                    raise
                self._renewal = None
                self._record(source, copy, {})
                return Step(more=True)
            step, last = self._take(changes)
        if self._renewal is not None:
            self._renewal.place = last
            if not step.more:
                step.deleted += self._delete_others(self._renewal.ids)
                self._renewal = None
        if self._renewal is None:
            self._record(source, copy, last)
        return step

    def _emptied(self, source: Body, copy: Body) -> Step:
        """Empty a copy with vectors of another model than its source has by now, and then give it that name: vectors of
        two models are never under one."""
        self._renewal = None
        self._target.replace_metadata(self._name, copy["metadata"] | {MIRRORED: self._mark(source, {})})
        deleted = self._target.empty_collection(self._name)["count_deleted"]
        self._record(source, copy, {})
        return Step(deleted=deleted, more=True)

    def _place(self, source: Body, copy: Body) -> Body:
        """Return the place that the copy has come to, an empty one when it begins."""
        mark = self._checked(source, copy)
        if mark.get("next"):
            self._renewal = None
            return {key: mark[key] for key in PLACE if key in mark}
        if self._renewal is None or not self._renewal.place:
            # What an answer that was cut off has told of before may have been deleted since.
            self._renewal = Renewal() if copy["count"] else None
        return {} if self._renewal is None else self._renewal.place

    def _checked(self, source: Body, copy: Body) -> Body:
        """Return what the metadata of the copy say of it, empty for a collection that is to become one. Raises
        ConflictError for one that cannot."""
        if copy["id"] == source["id"]:
            raise ConflictError(f"'{self._name}' is the collection to be copied, or was restored from a backup of it")
        mark = dict(copy_of(copy["metadata"]) or {})
        is_copy = mark.get("id") == source["id"] or (mark.get("url"), mark.get("collection")) == (self._url, self._of)
        if not is_copy and copy["count"]:
            raise ConflictError(
                f"'{self._name}' has documents and is no copy of '{self._of}' at {self._url}: nothing was changed"
            )
        if copy["metric"] != source["metric"]:
            raise ConflictError(
                f"'{self._name}' has the metric {copy['metric']}, '{self._of}' at {self._url} has {source['metric']}: "
                "delete the copy, and begin anew"
            )
        return mark if is_copy else {}

    def _take(self, changes: Iterator[Body]) -> tuple[Step, Body]:
        """Apply changes. Return what that did, and the place that they lead to."""
        step = Step()
        lines: list[bytes] = []
        doomed: list[str] = []
        size = 0
        for change in changes:
            if "next" in change:
                last = {key: change[key] for key in PLACE if key in change}
                step.revision, step.more = change["next"], change["more"]
                continue
            if change["op"] == "delete":
                doomed.append(change["id"])
            else:
                document = {key: each for key, each in change.items() if key not in ("op", "revision")}
                lines.append(orjson.dumps(document) + b"\n")
                size += len(lines[-1])
            self._note(change)
            if len(lines) == STORED_AT_ONCE or size > BYTES_AT_ONCE or len(doomed) == DELETED_AT_ONCE:
                self._apply(doomed, lines, step)
                lines, doomed, size = [], [], 0
        self._apply(doomed, lines, step)
        return step, last

    def _note(self, change: Body) -> None:
        """Note which ids the source has, where others are to be deleted."""
        if self._renewal is not None:
            (self._renewal.ids.discard if change["op"] == "delete" else self._renewal.ids.add)(change["id"])

    def _apply(self, doomed: list[str], lines: list[bytes], step: Step) -> None:
        """Delete and store documents; no id is in both."""
        if doomed:
            step.deleted += self._target.delete_documents(self._name, ids=doomed)
        if not lines:
            return
        try:
            answer = self._target.add_lines(self._name, lines)
        except InvalidInputError as error:
            if error.code != "dimension_mismatch":
                raise
            # The source has vectors of another dimension by now, so it has nothing any more of what is here.
            step.deleted += self._target.empty_collection(self._name)["count_deleted"]
            answer = self._target.add_lines(self._name, lines)
        step.stored += answer["created"] + answer["updated"]
        step.unchanged += answer["unchanged"]

    def _delete_others(self, ids: set[str]) -> int:
        """Delete the documents with other ids than these. Return their number."""
        others = (each["id"] for each in self._target.documents(self._name, include=["id"]) if each["id"] not in ids)
        deleted = 0
        while part := list(islice(others, DELETED_AT_ONCE)):
            deleted += self._target.delete_documents(self._name, ids=part)
        return deleted

    def _record(self, source: Body, copy: Body, place: Body) -> None:
        """Keep the place with the copy, and give it the metadata of the source."""
        metadata = _described(source) | {MIRRORED: self._mark(source, place)}
        if metadata != copy["metadata"]:
            self._target.replace_metadata(self._name, metadata)

    def _mark(self, source: Body, place: Body) -> Body:
        return {"url": self._url, "collection": self._of, "id": source["id"], **({"next": BEGINNING} | place)}


@contextmanager
def _missing(name: str) -> Iterator[None]:
    """Raise SourceMissingError in place of CollectionNotFoundError."""
    try:
        yield
    except CollectionNotFoundError as error:
        raise SourceMissingError(name) from error


def _described(source: Body) -> Body:
    """Return the metadata of the source without what makes it a copy itself."""
    return {key: value for key, value in source["metadata"].items() if key != MIRRORED}
