"""Documents as a stream of lines: bounded memory, good lines kept, bad lines reported by their number.

The only write that may be partial (api: "Documents"); it says exactly what it kept.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import orjson

from schemas.documents import new_id, parse_document, to_batch
from schemas.errors import ConflictError, InvalidInputError, RagError
from schemas.records import Metadata, Vector
from wrapper import answers
from wrapper.bodies import body_lines
from wrapper.catalog import writes
from wrapper.store import Store, WriteOptions

LINES_PER_TRANSACTION = 500
MAX_REPORTED_ERRORS = 1_000
MAX_RETURNED_IDS = 1_000

Parsed = tuple[str, str, Metadata, Vector]


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


@dataclass
class _Progress:
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    revision: int = 0
    ids: list[str] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    errors_total: int = 0
    entries: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.created + self.updated + self.unchanged

    def report(self, line: int, error: RagError) -> None:
        self.errors_total += 1
        if len(self.errors) < MAX_REPORTED_ERRORS:
            details = {key: value for key, value in error.details.items() if key != "index"}
            self.errors.append({"line": line, "code": error.code, "message": error.message, "details": details})


def add_stream(store: Store, name: str, on_conflict: str, options: WriteOptions) -> tuple[dict[str, Any], bool]:
    """Store the request's lines; returns the answer and whether the index has all of them.

    Raises InvalidInputError when no line was good, and what stops the whole stream (an unknown collection, a full
    disk) with `details.count` and `details.line` telling how far it had come.
    """
    digest = hashlib.sha256(options.digest.encode())
    source = _hashed(body_lines(), digest)
    key = options.idempotency_key
    if key is not None and store.has_answer(key):
        deque(source, maxlen=0)
        kept = store.kept_answer(key, digest.hexdigest())
        if kept is not None:
            return kept.answer, kept.indexed
    collection = store.collection(name)
    progress = _Progress(revision=collection.revision)
    pending: dict[str, tuple[int, Parsed]] = {}
    number = 0
    try:
        for number, line in enumerate(source, start=1):
            if not line.strip():
                continue
            try:
                parsed = _parse(line, number, options.idempotency_key)
                writes.check_dimension(collection, len(parsed[3]))
            except InvalidInputError as error:
                progress.report(number, error)
                continue
            if parsed[0] in pending or len(pending) == LINES_PER_TRANSACTION:
                _flush(store, name, pending, on_conflict, options, progress)
                pending = {}
            if collection.dimension is None:
                collection = replace(collection, dimension=len(parsed[3]))
            pending[parsed[0]] = (number, parsed)
        _flush(store, name, pending, on_conflict, options, progress)
    except RagError as error:
        error.details |= {"count": progress.count, "line": number}
        raise
    if progress.count == 0:
        if not progress.errors:
            raise InvalidInputError("Documents array is required", code="documents_required", field="documents")
        raise InvalidInputError(
            "No line holds a document that could be stored",
            code="no_good_line",
            errors=progress.errors,
            errors_total=progress.errors_total,
        )
    answer = _answer(name, progress)
    if key is not None:
        last = progress.entries[-1] if progress.entries else None
        store.keep_answer(key, digest.hexdigest(), answer, last, collection)
    return answer, all(store.wait_until_indexed(entry) for entry in progress.entries)


def _hashed(lines: Iterator[bytes], digest: Digest) -> Iterator[bytes]:
    for line in lines:
        digest.update(line + b"\n")
        yield line


def _flush(
    store: Store,
    name: str,
    pending: dict[str, tuple[int, Parsed]],
    on_conflict: str,
    options: WriteOptions,
    progress: _Progress,
) -> None:
    lines = list(pending.values())
    once = replace(options, idempotency_key=None, if_match=options.if_match if progress.count == 0 else None)
    while lines:
        try:
            outcome, entry = store.add_part(
                name, to_batch([parsed for _, parsed in lines]), once, on_conflict=on_conflict
            )
        except (ConflictError, InvalidInputError) as error:
            index = error.details.get("index")
            if index is None:
                raise
            number, _ = lines.pop(index)
            progress.report(number, error)
            continue
        progress.created += outcome.created
        progress.updated += outcome.updated
        progress.unchanged += outcome.unchanged
        progress.revision = outcome.revision
        if len(progress.ids) <= MAX_RETURNED_IDS:
            progress.ids += outcome.ids
        if entry is not None:
            # The index may be one part behind, no more: the stream goes at its pace.
            if progress.entries:
                store.wait_until_indexed(progress.entries[-1])
            progress.entries = [entry]
        return


def _parse(line: bytes, number: int, idempotency_key: str | None) -> Parsed:
    try:
        source = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"The line is not valid JSON: {error.msg}", code="invalid_json") from None
    if idempotency_key is None:
        return parse_document(source, None, new_id)
    return parse_document(source, None, lambda: f"doc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{idempotency_key}:{number}')}")


def _answer(name: str, progress: _Progress) -> dict[str, Any]:
    answer: answers.Answer = {
        "status": "added",
        "collection": name,
        "count": progress.count,
        "created": progress.created,
        "updated": progress.updated,
        "unchanged": progress.unchanged,
        "revision": progress.revision,
        "errors": progress.errors,
        "errors_total": progress.errors_total,
    }
    if len(progress.ids) <= MAX_RETURNED_IDS:
        answer["ids"] = progress.ids
    return answer
