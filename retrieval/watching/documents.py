"""Files of a watched folder as documents of the context tools, and back."""

from __future__ import annotations

from pathlib import PurePosixPath

from providers.embeddings.base import EmbeddingConnection
from retrieval.chunking import markdown_title
from retrieval.collection_writer import CollectionWriter
from retrieval.context.documents import splitter
from retrieval.drafts import SourceDocument, document_id
from retrieval.sources import decoded
from retrieval.watching.kinds import MARKDOWN, content_type_of


def source_of(folder: str, path: str) -> str:
    """What the document of a file is called; names of folders have no `/`."""
    return f"{folder}/{path}"


def document_of(folder: str, path: str, content: bytes, digest: str, embedding: EmbeddingConnection) -> SourceDocument:
    """`digest` is the SHA-256 of the content. Raises InvalidInputError when it is no text."""
    text = decoded(content)
    name = PurePosixPath(path)
    source, content_type = source_of(folder, path), content_type_of(path)
    title = markdown_title(text) if name.suffix.lower() in MARKDOWN else None
    return SourceDocument(
        id=document_id(source),
        title=title or name.name,
        text=text,
        metadata={"source": source, "contentType": content_type, "folder": folder, "path": path},
        split=splitter(content_type, embedding),
        hash=digest,
        sections=source,
        title_is_file_name=not title,
    )


def stored_files(writer: CollectionWriter, folder: str) -> dict[str, str]:
    """SHA-256 by path of what is stored of a folder. Documents of others that say the same name of theirs are left
    out: they have other ids."""
    stored = {}
    for chunk in writer.documents({"folder": folder, "chunk_index": 0}):
        path, digest = chunk.metadata.get("path"), chunk.metadata.get("hash")
        is_ours = isinstance(path, str) and chunk.metadata.get("document_id") == document_id(source_of(folder, path))
        if is_ours and isinstance(path, str):
            stored[path] = str(digest)
    return stored
