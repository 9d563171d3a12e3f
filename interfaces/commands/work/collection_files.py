"""Export and import collections as files: NDJSON, and a manifest that says what it must contain.

A folder holds `manifest.json` and one `NAME.ndjson` for each collection, `TENANT+DATABASE+NAME.ndjson` for one of
another database than the default one. A name that is too long for a file, or differs from another one in case alone, is
shortened, with a digest behind it: the manifest has the full name. A line is a document, with its embedding as base64
of little-endian float32. The manifest is written last: a folder without one is not a complete export.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from providers.rag_wrapper.client import WrapperClient
from retrieval.ingest.collection_writer import batches
from schemas.errors import ConflictError, InvalidInputError, UnavailableError
from schemas.metadata import without_reserved
from schemas.names import check_full_name
from schemas.storage.reembedding import EmbeddingModelDiffersError, recorded_model

MANIFEST = "manifest.json"
FORMAT, VERSION = "rag-wrapper export", 1
ENDING, INCOMPLETE = ".ndjson", ".part"
LONGEST_FILE_NAME = 255 - len(INCOMPLETE)
"""In bytes; names of collections are ASCII. More than 255 no common file system takes."""
_FILE = re.compile(rf"[a-zA-Z0-9._+~-]+{re.escape(ENDING)}")
ATTEMPTS = 5
LINES_AT_ONCE = 200
BYTES_AT_ONCE = 4 << 20

Progress = Callable[[str, int, int], None]
"""Called with a collection's name and how many of its documents are done, of how many."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One collection of an export.

    `sha256` is the file's. `dimension` None means no documents. `embedding_model` is the one in the collection's
    metadata.
    """

    name: str
    file: str
    count: int
    bytes: int
    sha256: str
    metric: str
    dimension: int | None
    metadata: dict[str, Any]
    embedding_model: str | None


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome of an import for one collection; `differences` are sentences, empty when it is as exported."""

    name: str
    created: int
    updated: int
    unchanged: int
    differences: tuple[str, ...]


def export_collections(
    service: WrapperClient, directory: Path, names: Sequence[str] | None = None, progress: Progress = lambda *_: None
) -> list[Entry]:
    """Write the collections (by default all of all databases) into `directory`, which must be new or empty.

    Each is one revision, whatever is written meanwhile. Raises InvalidInputError when the directory is in use,
    CollectionNotFoundError when a collection does not exist, and UnavailableError when streams keep being cut. After an
    error there is no manifest.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InvalidInputError(f"{directory} must be a new or an empty folder", field="directory")
    wanted = list(dict.fromkeys(names)) if names else [each["name"] for each in service.collections_everywhere()]
    for name in wanted:
        service.collection(name)
    directory.mkdir(parents=True, exist_ok=True)
    files = zip(wanted, _files_of(wanted), strict=True)
    entries = [_export(service, directory, name, file, progress) for name, file in files]
    manifest = {"format": FORMAT, "version": VERSION, "collections": [asdict(entry) for entry in entries]}
    _write_whole(directory / MANIFEST, [json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"])
    return entries


def read_manifest(directory: Path) -> list[Entry]:
    """Read a manifest. Raises InvalidInputError when there is none that this release understands."""
    try:
        source = orjson.loads((directory / MANIFEST).read_bytes())
        if (source["format"], source["version"]) != (FORMAT, VERSION):
            raise InvalidInputError(f"{directory / MANIFEST} is of another format or version", field="directory")
        names = {field.name for field in fields(Entry)}
        entries = [Entry(**{name: each[name] for name in names}) for each in source["collections"]]
        for entry in entries:
            check_full_name(entry.name)
            if not _FILE.fullmatch(entry.file):
                sentence = f"The manifest names a file '{entry.file}' for '{entry.name}'"
                raise InvalidInputError(sentence, field="directory")
        return entries
    except FileNotFoundError:
        raise InvalidInputError(f"{directory} has no {MANIFEST}: it is no whole export", field="directory") from None
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{directory / MANIFEST} cannot be understood: {error!r}", field="directory") from None


def import_collections(
    service: WrapperClient, directory: Path, names: Sequence[str] | None = None, progress: Progress = lambda *_: None
) -> list[Imported]:
    """Store the collections of an export in the service, then compare the service with the export.

    All files are verified before anything is sent. A document that is stored in the same form is not written again, so
    repeating an interrupted import resumes it. Raises InvalidInputError when a file is not what the manifest says or a
    name is not in it, ConflictError when a collection exists with another metric, dimension or embedding model.
    """
    entries = {entry.name: entry for entry in read_manifest(directory)}
    wanted = list(dict.fromkeys(names)) if names else list(entries)
    for name in wanted:
        if name not in entries:
            raise InvalidInputError(f"{directory} has no collection '{name}'", field="collection")
        _verify_file(directory, entries[name])
    return [_import(service, directory, entries[name], progress) for name in wanted]


def _export(service: WrapperClient, directory: Path, name: str, file: str, progress: Progress) -> Entry:
    path = directory / file
    for _ in range(ATTEMPTS):
        before = service.collection(name)
        with service.export(name) as (count, chunks):
            after = service.collection(name)
            with suppress(UnavailableError):
                lines, sha256 = _write_whole(path, chunks, lambda done: progress(name, done, count))
                if lines == count and all(before[key] == after[key] for key in ("metric", "metadata")):
                    return Entry(
                        name=name,
                        file=file,
                        count=count,
                        bytes=path.stat().st_size,
                        sha256=sha256,
                        metric=before["metric"],
                        dimension=_dimension(path),
                        metadata=before["metadata"],
                        embedding_model=recorded_model(before["metadata"]),
                    )
    for left in (file, f"{file}{INCOMPLETE}"):
        (directory / left).unlink(missing_ok=True)
    raise UnavailableError(f"The export of '{name}' was cut or its metadata changed, {ATTEMPTS} times")


def _write_whole(
    path: Path, chunks: Iterable[bytes], progress: Callable[[int], None] = lambda lines: None
) -> tuple[int, str]:
    """Write a file so that it has its name only when all of it is on disk. Return its lines and its SHA-256."""
    part = path.with_name(path.name + INCOMPLETE)
    digest, lines = hashlib.sha256(), 0
    with part.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            lines += chunk.count(b"\n")
            progress(lines)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return lines, digest.hexdigest()


def _dimension(path: Path) -> int | None:
    with path.open("rb") as file:
        first = file.readline()
    return len(orjson.loads(first)["embedding"].rstrip("=")) * 3 // 4 // 4 if first else None


def _files_of(names: Sequence[str]) -> list[str]:
    """Return a file name for each collection, so that no two are the same where file systems take cases for equal."""
    plain = [name.removeprefix("/").replace("/", "+") for name in names]  # no name has a plus or a tilde
    like = Counter(map(str.lower, plain))
    longest = LONGEST_FILE_NAME - len(ENDING)
    for index, each in enumerate(plain):
        if len(each) > longest or like[each.lower()] > 1:
            end = f"~{hashlib.sha256(each.encode()).hexdigest()[:32]}"
            plain[index] = each[: longest - len(end)] + end
    return [each + ENDING for each in plain]


def _verify_file(directory: Path, entry: Entry) -> None:
    try:
        with (directory / entry.file).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInputError(f"{entry.file} cannot be read: {error.strerror}", field="directory") from None
    if sha256 != entry.sha256:
        raise InvalidInputError(f"{entry.file} is not what the manifest says: nothing was imported", field="directory")


def _import(service: WrapperClient, directory: Path, entry: Entry, progress: Progress) -> Imported:
    metadata = without_reserved(entry.metadata)  # the index that the engine's own keys are about stays where it is
    there = service.ensure_collection(entry.name, metadata, metric=entry.metric)
    if there["metric"] != entry.metric:
        raise ConflictError(f"'{entry.name}' is there with metric {there['metric']}, the export has {entry.metric}")
    if None not in (there["dimension"], entry.dimension) and there["dimension"] != entry.dimension:
        raise ConflictError(
            f"'{entry.name}' is there with dimension {there['dimension']}, the export has {entry.dimension}"
        )
    exported, recorded = recorded_model(entry.metadata), recorded_model(there["metadata"])
    if recorded not in (None, exported):
        raise EmbeddingModelDiffersError(entry.name, stored=recorded, given=exported or "")
    done = {"created": 0, "updated": 0, "unchanged": 0}
    with (directory / entry.file).open("rb") as file:
        for read in iter(partial(file.readlines, BYTES_AT_ONCE), []):
            for lines in batches(read, LINES_AT_ONCE):
                answer = service.add_lines(entry.name, lines, embedding_model=exported or "")
                for key in done:
                    done[key] += answer[key]
                progress(entry.name, sum(done.values()), entry.count)
    differences = list(_differences(service, directory, entry))
    if without_reserved(there["metadata"]) != metadata:
        differences.append("the collection was there with other metadata, which were kept")
    return Imported(entry.name, **done, differences=tuple(differences))


def _differences(service: WrapperClient, directory: Path, entry: Entry) -> Iterator[str]:
    """Yield a sentence for each difference; documents are compared by digests of their lines, in any order."""
    with (directory / entry.file).open("rb") as file:
        wanted = dict(map(_id_and_digest, file))
    missing, changed, more = set(wanted), 0, 0
    with service.export(entry.name) as (count, chunks):
        lines = 0
        for line in _lines(chunks):
            lines += 1
            document_id, digest = _id_and_digest(line)
            missing.discard(document_id)
            more += document_id not in wanted
            changed += document_id in wanted and wanted[document_id] != digest
    if lines != count:
        yield f"only {lines} of {count} documents could be compared: the stream was cut"
    if missing:
        yield f"{len(missing)} documents are missing, such as {', '.join(map(repr, islice(sorted(missing), 3)))}"
    if changed:
        yield f"{changed} documents are not as exported"
    if more:
        yield f"{more} documents are there that the export does not have"


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _id_and_digest(line: bytes) -> tuple[str, bytes]:
    document = orjson.loads(line)
    canonical = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return document["id"], hashlib.blake2b(canonical, digest_size=16).digest()
