"""Documents of the contract *rules*, checked and made ready for ingestion."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import MarkdownDocument, markdown_title
from retrieval.ingest import profiles
from retrieval.ingest.drafts import SourceDocument
from retrieval.ingest.identity import document_id
from schemas.contracts.rule_documents import InvalidDocumentError, RuleDocument
from schemas.metadata import check_metadata, set_apart
from schemas.settings import RetrievalSettings

REQUIRED = ("source", "doc_type", "last_update_date")
ALIAS = "document_type"


def id_of(document: RuleDocument) -> str:
    """Return the id of a document, derived from its file name where it gives none. Raises InvalidDocumentError when the
    id it gives is not a UUID."""
    given = document.document_id
    if given is None:
        return document_id(document.filename)
    try:
        return str(given if isinstance(given, UUID) else UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise InvalidDocumentError("document_id must be a UUID", field="document_id") from None


def to_source(document: RuleDocument, settings: RetrievalSettings, embedding: EmbeddingProvider) -> SourceDocument:
    """Return the document as ingestion takes it. Raises InvalidDocumentError, naming the field, when it cannot be
    stored."""
    if not document.filename.strip():
        raise InvalidDocumentError("filename is blank", field="filename")
    if not document.content.strip():
        raise InvalidDocumentError("content is blank", field="content")
    metadata = _checked(document.metadata, settings)
    markdown = MarkdownDocument(document.content)
    section, title = metadata.get("section"), markdown_title(markdown)
    split = profiles.whole(
        embedding, settings.whole_max_tokens, section if isinstance(section, str) else "", settings.whole_levels
    )
    return SourceDocument(
        id=id_of(document),
        title=title or document.filename,
        text=document.content,
        metadata=set_apart(metadata, {"path": document.filename}),
        split=lambda _: split(markdown),
        title_is_file_name=not title,
        kind="markdown",
    )


def _checked(given: dict[str, Any], settings: RetrievalSettings) -> dict[str, Any]:
    check_metadata(given)
    metadata = {name: value for name, value in given.items() if name != ALIAS}
    if metadata.get("doc_type") is None:
        metadata["doc_type"] = given.get(ALIAS)
    for name in REQUIRED:
        value = metadata.get(name)
        if value is None:
            raise InvalidDocumentError(f"metadata.{name} is required", field=f"metadata.{name}")
        if not isinstance(value, str) or not value.strip():
            raise InvalidDocumentError(f"metadata.{name} must be a text that is not blank", field=f"metadata.{name}")
    if metadata["doc_type"] not in settings.doc_types:
        raise InvalidDocumentError(
            f"metadata.doc_type must be one of {', '.join(settings.doc_types)}, not '{metadata['doc_type']}'",
            field="metadata.doc_type",
            allowed=list(settings.doc_types),
        )
    if not is_iso_date(metadata["last_update_date"]):
        raise InvalidDocumentError(
            f"metadata.last_update_date must be an ISO date (2026-01-31), not '{metadata['last_update_date']}'",
            field="metadata.last_update_date",
        )
    return metadata


def is_iso_date(text: object) -> bool:
    """Return whether it is a text with a date, or with a date and a time."""
    if not isinstance(text, str):
        return False
    for read in (date.fromisoformat, datetime.fromisoformat):
        try:
            read(text)
        except ValueError:
            continue
        return True
    return False
