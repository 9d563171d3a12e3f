"""Convert files of a watched folder to documents of the context tools, and back."""

from __future__ import annotations

from pathlib import PurePosixPath

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import markdown_title
from retrieval.context.items import CONTENT_TYPE, SOURCE, splitter
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.drafts import SourceDocument, document_id
from retrieval.ingest.sources import decoded
from retrieval.watching.kinds import MARKDOWN, content_type_of
from schemas.where import And, Equals


def source_of(folder: str, path: str) -> str:
    """Return the source name of a file's document; names of folders have no `/`."""
    return f"{folder}/{path}"


def document_of(folder: str, path: str, content: bytes, digest: str, embedding: EmbeddingProvider) -> SourceDocument:
    """Make a file's document; `digest` is the SHA-256 of the content.

    Raises InvalidInputError when the content is not a text.
    """
    text = decoded(content)
    name = PurePosixPath(path)
    source, content_type = source_of(folder, path), content_type_of(path)
    title = markdown_title(text) if name.suffix.lower() in MARKDOWN else None
    return SourceDocument(
        id=document_id(source),
        title=title or name.name,
        text=text,
        metadata={SOURCE: source, CONTENT_TYPE: content_type, "folder": folder, "path": path},
        split=splitter(content_type, embedding),
        hash=digest,
        sections=source,
        title_is_file_name=not title,
    )


def stored_files(writer: CollectionWriter, folder: str) -> dict[str, str]:
    """Return the SHA-256 of each stored file of a folder, by path.

    Documents of others that give the same folder are left out: their ids differ.
    """
    stored = {}
    for chunk in writer.documents(And((Equals("folder", folder), Equals("chunk_index", 0)))):
        path, digest = chunk.metadata.get("path"), chunk.metadata.get("hash")
        is_ours = isinstance(path, str) and chunk.metadata.get("document_id") == document_id(source_of(folder, path))
        if is_ours and isinstance(path, str):
            stored[path] = str(digest)
    return stored
