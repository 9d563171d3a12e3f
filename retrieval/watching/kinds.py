"""Which files are watched, by the suffixes of their names."""

from __future__ import annotations

from pathlib import PurePosixPath

from retrieval.context.items import CODE, DOCUMENTATION

MARKDOWN = frozenset({".md", ".markdown"})
_DOCUMENTATION = MARKDOWN | {".txt", ".rst"}
_CODE_NAMES = """
    py pyi js mjs cjs jsx ts tsx vue svelte html css scss less java kt kts scala groovy cs fs vb go rs swift zig dart
    c h cc cpp cxx hh hpp hxx m mm rb php pl pm lua r jl ex exs erl hs ml clj el
    sh bash zsh fish ps1 bat sql graphql proto tf cmake gradle yaml yml toml ini cfg
"""
_CODE = frozenset(f".{name}" for name in _CODE_NAMES.split())


def content_type_of(path: str) -> str | None:
    """Return the `contentType` of the document that a file makes; None for files that are passed over.

    JSONL files are passed over because they are for loading: each line is a document of its own.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _DOCUMENTATION:
        return DOCUMENTATION
    return CODE if suffix in _CODE else None
