"""Where a passage stands, in one line that people can look up and models can cite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retrieval.quoting import one_line


def place_of(source: str, metadata: Mapping[str, Any]) -> str:
    """Return a source and where in it: `guide.pdf p. 12`, `guide.pdf p. 12-13`, `plan.xlsx sheet Q1`,
    `talk.pptx slide 3`, `notes.md:7`."""
    if "page" in metadata:
        pages = "-".join(str(metadata[name]) for name in ("page", "last_page") if name in metadata)
        return one_line(f"{source} p. {pages}")
    for name in ("sheet", "slide"):
        if name in metadata:
            return one_line(f"{source} {name} {metadata[name]}")
    return one_line(f"{source}:{metadata['start_line']}" if "start_line" in metadata else source)


def heading_of(metadata: Mapping[str, Any]) -> str:
    """Return the title and the section that is below it, `Guide › Backups › Retention`."""
    title, section = (one_line(str(metadata.get(name) or "")) for name in ("title", "section"))
    below = section.split(" > ") if section else []
    parts = below if title and below[:1] == [title] else [title, *below]
    return " › ".join(filter(None, parts))


def source_of(hit: Mapping[str, Any]) -> str:
    """Return what to call the document of a hit of `/api/search`."""
    return str(hit["metadata"].get("source") or hit["doc_id"])


def percentage(share: float | None) -> str:
    """Return a relevance as a percentage; one that nobody can tell is empty."""
    return "" if share is None else f"{share:.0%}"
