"""Stores documents that come as lines, in bounded memory: good lines are kept, bad ones reported by number.

This is the only write that may be partial (api: "Documents"); its answer says exactly what it kept.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import orjson

from schemas.access.callers import acting_still
from schemas.documents import ParsedDocument, new_id, parse_document, to_batch
from schemas.errors import BusyError, ConflictError, DocumentExistsError, InvalidInputError, RagError
from schemas.field_names import Unknown
from schemas.records import Collection, DocumentBatch
from schemas.storage.outcomes import StreamOutcome, WriteOutcome
from schemas.where import Where
from schemas.wire.json_in import decode
from schemas.wire.storage.stream import line_error
from wrapper.embedding_checks import check_dimension, check_directions
from wrapper.scoped_store import ScopedStore
from wrapper.web.bodies import body_lines, room_for
from wrapper.writing import Outcome, WriteOptions, Written

LINES_PER_TRANSACTION = 500
PARTS_BEHIND = 3
"""The parts of a stream that may be stored before the index has them, when its answer waits for the index: enough for
the engine to get large calls, and so few that the end of the stream does not wait long."""
BYTES_PER_TRANSACTION = 8 << 20
MAX_REPORTED_ERRORS = 1_000
MAX_RETURNED_IDS = 1_000
MAX_BAD_LINES = 10_000
"""The most lines without a document. A stream that has more of them, and fewer with a document, is not read to its
end."""


@dataclass
class Pending:
    """A document that is to be written once, and the lines that have its id.

    `changes` counts the lines that said something else than the one before.
    """

    parsed: ParsedDocument
    lines: list[int]
    changes: int = 0

    def repeat(self, line: int, parsed: ParsedDocument, on_conflict: str) -> None:
        """Take a later line of the same id."""
        self.lines.append(line)
        if on_conflict == "replace":
            self.changes += not _is_same(self.parsed, parsed)
            self.parsed = parsed


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


@dataclass
class Progress:
    """The state of a stream after the lines that have been read."""

    line: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    revision: int = 0
    ids: list[str] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    errors_total: int = 0
    bad_lines: int = 0
    """The errors of lines that hold no document."""
    entry: int | None = None
    behind: deque[tuple[int, list[str]]] = field(default_factory=deque)
    """The (outbox entry, ids) of the parts that the index may not have yet, for an answer that waits for it."""
    set_aside: list[str] = field(default_factory=list)
    refused: bool = False
    unknown: Unknown = field(default_factory=Unknown)
    """Names that nothing reads, in the lines and in the request."""

    @property
    def count(self) -> int:
        return self.created + self.updated + self.unchanged

    def report(self, line: int, error: RagError) -> None:
        self.errors_total += 1
        if len(self.errors) < MAX_REPORTED_ERRORS:
            self.errors.append(line_error(line, error))


def add_stream(
    store: ScopedStore,
    name: str,
    options: WriteOptions,
    unknown: Unknown,
    *,
    on_conflict: str,
    replace_where: Where | None = None,
    **_: Any,
) -> Written[StreamOutcome]:
    """Store the request's lines.

    Raises InvalidInputError when no line was good, and for `replace_where`, which a stream cannot have. What stops the
    whole stream (an unknown collection, a full disk) tells in `details.count` and `details.line` how far it had come.
    """
    if replace_where is not None:
        raise InvalidInputError("replace_where needs all documents in one JSON body", field="replace_where")

    def write(collection: Collection, lines: Iterable[bytes]) -> tuple[StreamOutcome, Progress]:
        progress = Progress(revision=collection.revision, unknown=unknown)
        store_lines(store, collection, lines, on_conflict, options, progress)
        if progress.count == 0:
            if not progress.errors:
                raise InvalidInputError("Documents array is required", code="documents_required", field="documents")
            raise InvalidInputError(
                "No line holds a document that could be stored",
                code="no_good_line",
                errors=progress.errors,
                errors_total=progress.errors_total,
            )
        return _outcome(progress), progress

    return once(StreamOutcome, store, name, options, body_lines(), write)


def once(
    kind: type[Outcome],
    store: ScopedStore,
    name: str,
    options: WriteOptions,
    lines: Iterator[bytes],
    write: Callable[[Collection, Iterable[bytes]], tuple[Outcome, Progress]],
) -> Written[Outcome]:
    """Return the outcome of `write`, or the one that a stream of the same key and lines had."""
    store.reach.check_writing(store.reach.full(name))
    digest = hashlib.sha256(options.digest.encode())
    source = _hashed(lines, digest)
    key = options.idempotency_key
    if key is not None and store.writing.is_known(key):
        deque(source, maxlen=0)
        first = store.writing.first(kind, name, key, digest.hexdigest(), options)
        if first is not None:
            return first
    collection = store.collection(name)
    since = store.writing.erasures()
    outcome, progress = write(collection, source)
    if key is not None:
        entry = outcome.outbox_id
        store.writing.keep(kind, key, digest.hexdigest(), outcome, collection.key, since=since, outbox_id=entry)
    indexed = _settle(store, name, progress, options)
    awaited = store.writing.awaits_index(options)
    return Written(outcome, indexed=indexed, set_aside=progress.set_aside, awaited=awaited)


def store_lines(
    store: ScopedStore,
    collection: Collection,
    lines: Iterable[bytes],
    on_conflict: str,
    options: WriteOptions,
    progress: Progress,
    *,
    whole: bool = False,
) -> None:
    """Store the documents and report the lines that hold none.

    A stream that must be `whole` stops at the first such line. An error tells in `details.count` and `details.line` how
    far the stream had come.
    """
    pending: dict[str, Pending] = {}
    pending_lines = pending_bytes = 0

    def flush() -> None:
        nonlocal pending, pending_lines, pending_bytes
        _flush(store, collection, list(pending.values()), on_conflict, options, progress, whole)
        pending, pending_lines, pending_bytes = {}, 0, 0

    try:
        for line in lines:
            progress.line += 1
            if not line.strip():
                continue
            try:
                make_id = _no_id if whole else _id_maker(progress.line, options.idempotency_key)
                parsed = _parse(line, make_id, progress.unknown, whole)
                check_dimension(collection, len(parsed[3]))
                if not whole:
                    # Documents that an earlier release took and exported must come back whole.
                    check_directions(collection, parsed[3][np.newaxis], index=None)
            except InvalidInputError as error:
                if whole:
                    raise
                progress.report(progress.line, error)
                progress.bad_lines += 1
                if progress.bad_lines > max(MAX_BAD_LINES, progress.count + pending_lines):
                    flush()
                    raise _too_many_bad_lines(progress) from None
                continue
            if pending_lines == LINES_PER_TRANSACTION or pending_bytes > BYTES_PER_TRANSACTION:
                flush()
            if collection.dimension is None:
                collection = replace(collection, dimension=len(parsed[3]))
            if parsed[0] in pending:
                pending[parsed[0]].repeat(progress.line, parsed, on_conflict)
            else:
                pending[parsed[0]] = Pending(parsed, [progress.line])
            pending_lines += 1
            pending_bytes += len(line)
        flush()
    except RagError as error:
        error.details |= {"count": progress.count, "line": progress.line}
        raise


def _hashed(lines: Iterator[bytes], digest: Digest) -> Iterator[bytes]:
    for line in lines:
        digest.update(line + b"\n")
        yield line


def _flush(
    store: ScopedStore,
    collection: Collection,
    pending: list[Pending],
    on_conflict: str,
    options: WriteOptions,
    progress: Progress,
    whole: bool,
) -> None:
    once = replace(options, idempotency_key=None, if_match=options.if_match if progress.count == 0 else None)
    while pending:
        try:
            batch = to_batch([each.parsed for each in pending])
            outcome = _add_part(store, collection, batch, once, on_conflict)
        except (ConflictError, InvalidInputError) as error:
            index = error.details.get("index")
            if index is None or whole:
                raise
            refused = set(error.details.pop("indexes", [index]))
            for at in sorted(refused):
                for line in pending[at].lines:
                    is_there = isinstance(error, ConflictError)
                    progress.report(line, DocumentExistsError(pending[at].parsed[0]) if is_there else error)
            pending = [each for at, each in enumerate(pending) if at not in refused]
            continue
        progress.created += outcome.created
        progress.updated += outcome.updated
        progress.unchanged += outcome.unchanged
        for each in pending:
            _count_repeats(each, on_conflict, progress)
        progress.revision = outcome.revision
        if len(progress.ids) <= MAX_RETURNED_IDS:
            progress.ids += outcome.ids
        if outcome.outbox_id is not None:
            progress.entry = outcome.outbox_id
            if store.writing.awaits_index(options):
                progress.behind.append((outcome.outbox_id, outcome.ids))
                _keep_pace(store, collection.name, progress)
        return


def _add_part(
    store: ScopedStore,
    collection: Collection,
    batch: DocumentBatch,
    options: WriteOptions,
    on_conflict: str,
) -> WriteOutcome:
    """Store one part. Where too much waits for the index, it waits for room first, once."""
    try:
        with acting_still():
            return store.add_part(collection, batch, options, on_conflict=on_conflict)
    except BusyError:
        store.writing.wait_for_room(store.reach.full(collection.name))
    with acting_still():
        return store.add_part(collection, batch, options, on_conflict=on_conflict)


def _keep_pace(store: ScopedStore, name: str, progress: Progress) -> None:
    """Wait until the index is at most `PARTS_BEHIND` parts behind, or for as long as a write waits."""
    while len(progress.behind) > PARTS_BEHIND and store.writing.wait_until_indexed(progress.behind[0][0]):
        _note_set_aside(store, name, progress, progress.behind.popleft()[1])


def _count_repeats(stored: Pending, on_conflict: str, progress: Progress) -> None:
    repeats = stored.lines[1:]
    if on_conflict == "error":
        for line in repeats:
            progress.report(line, DocumentExistsError(stored.parsed[0]))
        return
    progress.updated += stored.changes
    progress.unchanged += len(repeats) - stored.changes


def _settle(store: ScopedStore, name: str, progress: Progress, options: WriteOptions) -> bool:
    """Return whether the index has the last part and all parts before, waiting for it where these options want that."""
    indexed = store.writing.is_indexed(progress.entry, options)
    while indexed and progress.behind:
        _note_set_aside(store, name, progress, progress.behind.popleft()[1])
    return indexed and not progress.refused


def _note_set_aside(store: ScopedStore, name: str, progress: Progress, ids: list[str]) -> None:
    refused = store.writing.set_aside_of(store.reach.full(name), ids)
    progress.set_aside += refused[: MAX_RETURNED_IDS - len(progress.set_aside)]
    progress.refused |= bool(refused)


def _parse(line: bytes, make_id: Callable[[], str], unknown: Unknown, of_export: bool) -> ParsedDocument:
    with room_for(line):
        try:
            source = decode(line)
        except orjson.JSONDecodeError as error:
            raise InvalidInputError(f"The line is not valid JSON: {error.msg}", code="invalid_json") from None
        return parse_document(source, None, make_id, unknown, may_lack_text=of_export)


def _is_same(one: ParsedDocument, other: ParsedDocument) -> bool:
    return one[1:3] == other[1:3] and one.extras == other.extras and np.array_equal(one[3], other[3])


def _too_many_bad_lines(progress: Progress) -> InvalidInputError:
    return InvalidInputError(
        f"The stream was not read beyond line {progress.line:,}: {progress.bad_lines:,} lines hold no document that "
        f"could be stored. {progress.count:,} documents are stored",
        code="too_many_bad_lines",
        limit=MAX_BAD_LINES,
        errors=progress.errors,
        errors_total=progress.errors_total,
    )


def _id_maker(number: int, idempotency_key: str | None) -> Callable[[], str]:
    if idempotency_key is None:
        return new_id
    return lambda: f"doc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{idempotency_key}:{number}')}"


def _no_id() -> str:
    raise InvalidInputError("id is required", code="invalid_id", field="id")


def _outcome(progress: Progress) -> StreamOutcome:
    return StreamOutcome(
        progress.revision,
        progress.entry,
        ids=progress.ids if len(progress.ids) <= MAX_RETURNED_IDS else [],
        created=progress.created,
        updated=progress.updated,
        unchanged=progress.unchanged,
        errors=progress.errors,
        errors_total=progress.errors_total,
        warnings=progress.unknown.take(),
    )
