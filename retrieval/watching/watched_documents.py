"""Files of a watched folder as documents, and the stored documents that are of one."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath

from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.files import GivenFile
from retrieval.ingest.identity import document_id
from retrieval.ingest.ingestion import is_same_file
from retrieval.ingest.profiles import Chunking
from retrieval.reading import Kind, UnreadableError, kind_of, kind_of_content
from retrieval.reading.read_document import UNSUPPORTED_KIND
from schemas.where import And, Equals

FOLDER = "folder"
"""Metadata of watched files: the name of the folder, which says that deleting a file there deletes its document."""


def source_of(folder: str, path: str) -> str:
    """Return the source name of a file's document; names of folders have no `/`."""
    return f"{folder}/{path}"


def given_file(folder: str, path: str, content: bytes) -> GivenFile:
    """Return a file as it is ingested. Raises UnreadableError when it is of no kind that can be read."""
    return GivenFile(source_of(folder, path), content, _kind(path, content), metadata={FOLDER: folder})


def stored_files(writer: CollectionWriter, folder: str, chunking: Chunking | None = None) -> dict[str, str]:
    """Return the SHA-256 of each stored file of a folder, by path; "" for one that is not split by `chunking`.

    Documents of others that give the same folder are left out: their ids differ.
    """
    return writer.following(partial(_stored_files, writer, folder, chunking))


def _stored_files(writer: CollectionWriter, folder: str, chunking: Chunking | None) -> dict[str, str]:
    stored = {}
    for chunk in writer.documents(And((Equals(FOLDER, folder), Equals("chunk_index", 0)))):
        path, digest = chunk.metadata.get("path"), str(chunk.metadata.get("hash"))
        if isinstance(path, str) and chunk.metadata.get("document_id") == document_id(source_of(folder, path)):
            made = {"hash": digest, "chunking": chunking and chunking.label, "embedding_model": writer.embedding.model}
            stored[path] = digest if chunking is None or is_same_file(chunk.metadata, {**made, "given": ""}) else ""
    return stored


def _kind(path: str, content: bytes) -> Kind:
    known = kind_of(path) or (None if PurePosixPath(path).suffix else kind_of_content(content))
    if known is None:
        raise UnreadableError("is of no kind that can be read", code=UNSUPPORTED_KIND)
    return known
