"""The knowledge of a topic, or of everything, as one text for a language model."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.contracts.search import CollectionsReceipt

RULE, DOCUMENT, NOTE = "rule", "document", "note"


@dataclass(frozen=True, slots=True)
class ContextSource:
    """The source of a part of the context; `number` is its number in the text, `kind` one of the words above."""

    number: int
    kind: str
    collection: str
    chunk_id: str
    doc_id: str
    title: str


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """A project context as Markdown `text`, an overview without a topic. `receipt` says which collections were
    asked."""

    topic: str | None
    text: str
    sources: list[ContextSource]
    receipt: CollectionsReceipt
