"""Erases documents, or what belongs to a user, from every place that holds something of them.

What can be found goes first: then rows, then files. An erasure that is killed after it has deleted documents is gone on
with by the next one, and every step from there may be done twice. One that is killed earlier has done nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from retrieval.clock import utc_now
from retrieval.erasing.pending import PendingErasures
from retrieval.sessions.notes import notes_among_all, shared_among_all
from schemas.shared_database import Place
from schemas.storage.erasure import (
    LIMIT_SECONDS,
    Cleaned,
    ErasureRequest,
    ErasureUnderWayError,
    ErasureUnfinishedError,
    Matched,
    Receipt,
    Target,
)
from schemas.storage.leadership import FileLeadership
from schemas.where import Where

log = structlog.get_logger(__name__)

OUTCOMES = "idempotency keys"


class Storage(Protocol):
    """What the storage does for an erasure. What returns a sentence says with it what is not done, with None that all
    is. `until` is a moment of the monotonic clock."""

    def without_backups(self) -> AbstractContextManager[None]: ...

    def collections_with(self, where: Where) -> list[str]: ...

    def delete(self, asked: ErasureRequest, before: Callable[[Matched], Matched]) -> tuple[Matched, int]: ...

    def is_deleted(self, erasure: Matched) -> bool: ...

    def renew_index(self, name: str, *, until: float) -> str | None: ...

    def clean_engine(self, *, until: float) -> str | None: ...

    def rewrite_catalogue(self, *, until: float) -> str | None: ...

    def done(self, targets: Sequence[Target]) -> list[Cleaned]: ...

    def traces(
        self, probes: Sequence[bytes], holders: Callable[[Set[Path]], Mapping[Path, str]]
    ) -> tuple[dict[str, str], list[str]]: ...


class Erasure:
    """Carries out one erasure at a time; usable by several threads and processes.

    `named` adds the names by which uploads know a target, and raises when one is about to store it again.
    """

    def __init__(
        self,
        storage: Storage,
        pending: PendingErasures,
        places: Sequence[Place],
        *,
        named: Callable[[Target], Target],
        lock_file: Path,
    ) -> None:
        self._storage = storage
        self._pending = pending
        self._places = places
        self._named = named
        self._lock_file = lock_file

    def erase(self, request: ErasureRequest) -> Receipt:
        """Erase what is asked for, and return the receipt once nothing of it is left.

        What earlier requests have left unfinished is gone on with, but nothing is removed for them that came after
        they had removed theirs. Raises CollectionNotFoundError, InvalidInputError, ErasureUnderWayError,
        UploadWaitingError, ConflictError when a backup is being made and does not end, and
        ErasureUnfinishedError, which says what is left of what is asked for; what is left of something else is told to
        the log alone.
        """
        with self._alone(), self._storage.without_backups():
            until = time.monotonic() + LIMIT_SECONDS
            began_at = utc_now()
            removed: Counter[str] = Counter()
            if request.user is not None:
                _remove(Target(owner=request.user), removed, (each for each in self._places if each.adds_documents))
            earlier = [each for each in self._pending.all() if each.is_removed or self._storage.is_deleted(each)]
            wanted: list[Matched] = []
            for part in self._parts(request):
                write_down = partial(self._write_down, request.digest, [*earlier, *wanted])
                found, outcomes = self._storage.delete(part, write_down)
                removed[OUTCOMES] += outcomes
                wanted.append(found)
            unfinished = [*(each for each in earlier if each not in wanted), *wanted]
            found_now = [each for each in unfinished if not each.is_removed]
            for each in found_now:
                # What is by now where it would add documents of the user asked for, has come since that was removed.
                was_emptied = each.target.owner is not None and each.target.owner == request.user
                places = (place for place in self._places if not (was_emptied and place.adds_documents))
                _remove(each.target, removed, places)
            unfinished = [replace(each, is_removed=True) for each in unfinished]
            self._pending.keep(unfinished)
            own = [each for each in unfinished if _is_part(each, request, wanted[0].target)]
            others = [each for each in unfinished if each not in own]
            targets = [each.target for each in own]
            try:
                left = self._not_renewed(_collections(own), until)
                # Others may not take all the time.
                behind = self._not_renewed(_collections(others) - _collections(own), until - LIMIT_SECONDS / 2)
                for each in found_now:
                    _remove(each.target, removed, (place for place in self._places if place.fills_late))
                _raise_for(left)
                cleaned = {
                    "engine": self._storage.clean_engine(until=until),
                    "catalogue": self._storage.rewrite_catalogue(until=until),
                }
                _raise_for(_left(cleaned))
                left, also_in = self._traces(own)
                _raise_for(left)
            except ErasureUnfinishedError as error:
                error.documents = _count_of(targets)
                raise
            self._pending.keep([each for each in others if self._is_left(each, behind)])
            receipt = self._receipt(request, targets, removed, also_in, began_at)
            log.info("erased", collection=request.collection, documents=receipt.documents, chunks=receipt.chunks)
            return receipt

    def _receipt(
        self,
        request: ErasureRequest,
        targets: Sequence[Target],
        removed: Mapping[str, int],
        also_in: Sequence[str],
        began_at: datetime,
    ) -> Receipt:
        # One that was begun by an earlier request and ended by this one counts here.
        places = [Cleaned(each.name, each.done, removed[each.name]) for each in self._places]
        places.append(Cleaned(OUTCOMES, "their ids and names left out of what repeats are answered", removed[OUTCOMES]))
        return Receipt(
            collection=request.collection,
            user=request.user,
            documents=_count_of(targets),
            chunks=len(frozenset().union(*(each.ids for each in targets))),
            places=(*self._storage.done(targets), *places),
            also_in=tuple(also_in),
            began_at=began_at.isoformat(timespec="milliseconds"),
            ended_at=utc_now().isoformat(timespec="milliseconds"),
        )

    def _parts(self, request: ErasureRequest) -> list[ErasureRequest]:
        """Return what is asked for, by collections. The notes of a user may be in several, whatever the settings say by
        now."""
        if request.user is None:
            return [request]
        notes = notes_among_all(request.user)
        shared = self._storage.collections_with(shared_among_all(request.user))
        return [
            replace(request, collection=name, where=notes, is_private=name not in shared)
            for name in self._storage.collections_with(notes)
        ] or [replace(request, is_private=True)]

    def _write_down(self, request_digest: str, beside: Sequence[Matched], found: Matched) -> Matched:
        """Write down what is about to be deleted, and return it with the names by which uploads know it, and with what
        tells its request."""
        found = replace(found, target=self._named(found.target), request_digest=request_digest)
        self._pending.keep([*beside, found])
        return found

    def _not_renewed(self, names: Set[str], until: float) -> dict[str, str]:
        """Renew the indexes of these collections. Return those that are not done, with the reasons."""
        return _left({_index_of(name): self._storage.renew_index(name, until=until) for name in sorted(names)})

    def _traces(self, erasures: Iterable[Matched]) -> tuple[dict[str, str], list[str]]:
        left, also_in = dict[str, str](), list[str]()
        for each in erasures:
            found, elsewhere = self._storage.traces(each.probes, partial(self._holders, each.target))
            left |= found
            also_in += elsewhere
        return left, list(dict.fromkeys(also_in))

    def _holders(self, target: Target, files: Set[Path]) -> dict[Path, str]:
        return {file: name for place in self._places for file, name in place.holders(target, files).items()}

    def _is_left(self, erasure: Matched, behind: Mapping[str, str]) -> bool:
        """Return whether something is left of an earlier erasure, which the log then tells."""
        collection = erasure.target.collection
        left = {place: reason for place, reason in behind.items() if collection and place == _index_of(collection)}
        left |= self._traces([erasure])[0]
        if left:
            log.warning("an earlier erasure is not finished yet", collection=collection, left=left)
        return bool(left)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        leadership = FileLeadership(self._lock_file)
        if not leadership.acquire():
            raise ErasureUnderWayError
        try:
            yield
        finally:
            leadership.release()


def _remove(target: Target, removed: Counter[str], places: Iterable[Place]) -> None:
    for place in places:
        removed[place.name] += place.erase(target)


def _left(reasons: Mapping[str, str | None]) -> dict[str, str]:
    return {place: reason for place, reason in reasons.items() if reason is not None}


def _raise_for(left: Mapping[str, str]) -> None:
    if left:
        raise ErasureUnfinishedError(left)


def _is_part(erasure: Matched, request: ErasureRequest, target: Target) -> bool:
    """Return whether an erasure was begun by this request or by the same one earlier, or has the document that is asked
    for. What else a filter may have matched is deleted by now, and has its own request."""
    if erasure.request_digest == request.digest:
        return True
    of_document = request.document is not None and erasure.target.collection == target.collection
    return of_document and not erasure.target.document_ids.isdisjoint(target.document_ids)


def _collections(erasures: Iterable[Matched]) -> set[str]:
    return {each.target.collection for each in erasures if each.target.collection is not None}


def _count_of(targets: Iterable[Target]) -> int:
    return len(frozenset().union(*(each.documents for each in targets)))


def _index_of(collection: str) -> str:
    return f"vector index of '{collection}'"
