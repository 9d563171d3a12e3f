"""Imports of a whole collection: all lines of an export, or an error that says how far the import came.

Documents that are stored in the same form are not written again, so an import that broke off is resumed by sending it
again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.errors import CollectionNotFoundError, InvalidInputError, RagError
from schemas.field_names import Unknown
from schemas.records import Collection
from schemas.storage.outcomes import ImportOutcome
from wrapper.scoped_store import ScopedStore
from wrapper.web.bodies import body_lines
from wrapper.web.line_streams import Progress, once, store_lines
from wrapper.writing import WriteOptions, Written

SHA256_BYTES = 32


@dataclass(frozen=True, slots=True)
class Announced:
    """The sender's announcement of the stream, with None for what it does not announce. `sha256` is that of the body as
    it is sent."""

    count: int | None = None
    sha256: bytes | None = None


def parse_announced(count: str | None, content_digest: str | None) -> Announced:
    """Return what the headers `X-Document-Count` and `Content-Digest` (RFC 9530) announce.

    Other algorithms than sha-256 are ignored. Raises InvalidInputError, naming the header, when one is malformed.
    """
    if count is not None and not (count.isascii() and count.isdigit() and len(count) < 20):
        raise InvalidInputError(
            "X-Document-Count must be a whole number of at most 19 digits",
            code="invalid_field",
            field="X-Document-Count",
        )
    return Announced(None if count is None else int(count), None if content_digest is None else _sha256(content_digest))


def import_stream(
    store: ScopedStore, name: str, options: WriteOptions, announced: Announced, unknown: Unknown
) -> Written[ImportOutcome]:
    """Store all of the stream.

    Raises InvalidInputError for the first bad line, and when the stream is not the one that was announced;
    `details.count` says how many documents are stored all the same.
    """
    digest = hashlib.sha256()

    def write(collection: Collection, lines: Iterable[bytes]) -> tuple[ImportOutcome, Progress]:
        progress = Progress(revision=collection.revision, unknown=unknown)
        try:
            store_lines(store, collection, lines, "replace", options, progress, whole=True)
            _compare(announced, progress, digest.digest())
        except CollectionNotFoundError:
            raise  # store_lines has added how far the stream had come
        except RagError as error:
            error.details |= {"count": progress.count, "line": progress.line}
            done = f"{progress.count} documents are stored; sent again, it goes on from there"
            error.message = f"{error.message} (line {progress.line}). {done}"
            raise
        outcome = ImportOutcome(
            progress.revision,
            progress.entry,
            created=progress.created,
            updated=progress.updated,
            unchanged=progress.unchanged,
            sha256=digest.hexdigest(),
            verified=announced != Announced(),
            warnings=unknown.take(),
        )
        return outcome, progress

    return once(ImportOutcome, store, name, options, body_lines(digest.update), write)


def _compare(announced: Announced, progress: Progress, sha256: bytes) -> None:
    if announced.count is not None and announced.count != progress.count:
        raise InvalidInputError(
            f"The stream had {progress.count} documents instead of {announced.count}",
            code="count_mismatch",
            field="X-Document-Count",
            expected=announced.count,
            actual=progress.count,
        )
    if announced.sha256 is not None and announced.sha256 != sha256:
        raise InvalidInputError(
            "The stream is not the one that was announced: its SHA-256 differs",
            code="digest_mismatch",
            field="Content-Digest",
            expected=announced.sha256.hex(),
            actual=sha256.hex(),
        )


def _sha256(content_digest: str) -> bytes | None:
    for item in content_digest.split(","):
        algorithm, _, value = item.strip().partition("=")
        if algorithm.lower() != "sha-256":
            continue
        try:
            found = base64.b64decode(value.removeprefix(":").removesuffix(":"), validate=True)
        except binascii.Error:
            found = b""
        if not value.startswith(":") or not value.endswith(":") or len(found) != SHA256_BYTES:
            raise InvalidInputError(
                "Content-Digest must be like sha-256=:<base64>:", code="invalid_field", field="Content-Digest"
            )
        return found
    return None
