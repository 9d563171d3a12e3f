"""Recognises the text of scans: page by page, so that others have their turn and the work can end in between.

A page that takes longer than a file may is left out. So are those after some that took so long, and after `MAX_PAGES`.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from retrieval.parsing.parsed import (
    EMPTY,
    TOO_SLOW,
    UNSUPPORTED_KIND,
    MarkdownText,
    Parsed,
    UnreadableError,
    collapsed,
    pages_named,
)
from schemas.settings import RetrievalSettings

MAX_PAGES = 1_000
"""The most pages of a file that are recognised."""
MAX_SLOW_PAGES = 3
_SUFFIX = ".traineddata"
_NO_LANGUAGES = {"osd", "equ"}  # for finding out how a page is turned, and for formulas
_SEPARATORS = re.compile(r"[+,\s]+")

OnPage = Callable[[int, int], object]
"""Is called with the place of a page, from 1, among those to be recognised, and their number, and may raise what ends
the work."""
Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Languages:
    """The languages that are recognised: those of these `names`, else all whose data are installed or in `folder`."""

    folder: Path | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: RetrievalSettings) -> Self:
        """Return the languages that an operator set."""
        folder = Path(settings.ocr_data).resolve() if settings.ocr_data else None
        return cls(folder, tuple(name for name in _SEPARATORS.split(settings.ocr_languages) if name))

    def places(self) -> list[str]:
        """Return the places of their data, without the suffix. Raises UnreadableError (UNSUPPORTED_KIND) where some
        are not there."""
        installed = Path(sysconfig.get_path("data"), "share", "tessdata")
        folders = [installed] if self.folder is None else [installed, self.folder]
        found = {file.stem: file for folder in folders for file in sorted(folder.glob(f"*{_SUFFIX}"))}
        names = self.names or sorted(found.keys() - _NO_LANGUAGES)
        if not names:
            raise UnreadableError("there are no data of languages: pip install 'rag-wrapper[ocr]'", UNSUPPORTED_KIND)
        if missing := [name for name in names if name not in found]:
            there = ", ".join(sorted(found)) or "none"
            raise UnreadableError(
                f"there are no data of the languages {', '.join(missing)} of RAG_OCR_LANGUAGES, but of {there}",
                UNSUPPORTED_KIND,
            )
        return [str(found[name].with_suffix("")) for name in names]


ALL_INSTALLED = Languages()


def recognise(document: Parsed, ask: Callable[[int], Answer], on_page: OnPage) -> None:
    """Give a document the text of its scanned pages, and say in `warnings` which these are, and which have none. `ask`
    returns the answer to the question for a page.

    Raises UnreadableError when there is no text at all, and what `on_page` raises.
    """
    pages, rest = document.scanned[:MAX_PAGES], document.scanned[MAX_PAGES:]
    why_rest = f"text is recognised in {MAX_PAGES:,} pages at most"
    texts: dict[int, str] = {}
    empty: list[int] = []
    left_out: dict[tuple[str, str], list[int]] = {}  # by the code and the reason
    for place, page in enumerate(pages, start=1):
        on_page(place, len(pages))
        answer = ask(page)
        if "parsed" in answer:
            texts[page] = answer["parsed"]["text"]
        elif answer["code"] == EMPTY:
            empty.append(page)
        else:
            alike = left_out.setdefault((answer["code"], answer["message"]), [])
            alike.append(page)
            if answer["code"] == UNSUPPORTED_KIND:  # so are all
                alike += document.scanned[place:]
                rest = []
                break
            if answer["code"] == TOO_SLOW and len(alike) == MAX_SLOW_PAGES:
                rest, why_rest = document.scanned[place:], f"{MAX_SLOW_PAGES} of those before took too long"
                break
    if rest:
        left_out["", why_rest] = rest
    if not texts and not document.text.strip():
        raise _no_text(left_out, bool(empty))
    own = _text_of_pages(document)
    document.text, document.marks = _merged(own, texts)
    empty = [page for page in empty if page not in own]
    if texts:
        named = pages_named(list(texts))
        document.warnings.append(f"Text was recognised in the pictures of {named}: letters may be wrong")
    if empty:
        document.warnings.append(f"No text was recognised in the pictures of {pages_named(empty)}")
    for (_, reason), some in left_out.items():
        document.warnings.append(f"The pictures of {pages_named(some)} were not read: {reason}")


def _no_text(left_out: Iterable[tuple[str, str]], any_empty: bool) -> UnreadableError:
    code, reason = next(iter(left_out), (EMPTY, ""))
    if any_empty or not reason:
        return UnreadableError("contains no text, and none was recognised in its pictures", EMPTY)
    if code == UNSUPPORTED_KIND:
        return UnreadableError(f"has no text layer: {reason}", EMPTY)
    return UnreadableError(reason, code)


def _text_of_pages(document: Parsed) -> dict[int, str]:
    lines = document.text.split("\n")
    starts = [line - 1 for line, _ in document.marks]
    return {
        mark["page"]: "\n".join(lines[start:end])
        for (_, mark), start, end in zip(document.marks, starts, [*starts[1:], None], strict=False)
    }


def _merged(own: Mapping[int, str], texts: Mapping[int, str]) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """Return one text of what the pages have and of what was recognised, and the marks. What a page has is mostly
    recognised, too."""
    merged = MarkdownText()
    for page in sorted({*own, *texts}):
        merged.mark(page=page, **({"ocr": True} if page in texts else {}))
        has, seen = own.get(page, ""), texts.get(page, "")
        merged.add("" if collapsed(has) in collapsed(seen) else has, seen)
    return merged.text, merged.marks
