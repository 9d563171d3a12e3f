"""The kinds of documents: the one table of what can be loaded, watched, uploaded and ingested."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from retrieval.chunking import Syntax
from retrieval.parsing.parsed import UNSUPPORTED_KIND, UnreadableError

_CODE_NAMES = """
    py pyi js mjs cjs jsx ts tsx vue svelte css scss less java kt kts scala groovy cs fs vb go rs swift zig dart
    c h cc cpp cxx hh hpp hxx m mm rb php pl pm lua r jl ex exs erl hs ml clj el
    sh bash zsh fish ps1 bat sql graphql proto tf cmake gradle yaml yml toml ini cfg
"""
_OFFICE = "application/vnd.openxmlformats-officedocument."
_SNIFFED_BYTES = 4096
_FIRST_BYTES, _ARCHIVE_BYTES = 1 << 16, 64 << 20
"""How much of a file without a suffix tells its kind, and how much more of an archive."""
_ARCHIVE_START = b"PK\x03\x04"
_PDF_START = b"%PDF-"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document.

    `label` is what people call a file of it. `suffixes` are in lower case and begin with a dot. `syntax` is that of the
    text that reading makes. `is_isolated`: it is parsed in a process of its own, with limits. `needs_formats`: the
    parser is in the extra `formats`. `is_records`: each line is a document of its own, so there is no one text to read.
    """

    name: str
    label: str
    suffixes: tuple[str, ...]
    media_types: tuple[str, ...]
    syntax: Syntax = Syntax.MARKDOWN
    is_isolated: bool = True
    needs_formats: bool = True
    is_records: bool = False


KINDS: tuple[Kind, ...] = (
    Kind("pdf", "a PDF", (".pdf",), ("application/pdf",)),
    Kind("html", "an HTML page", (".html", ".htm", ".xhtml", ".shtml", ".xht"), ("text/html", "application/xhtml+xml")),
    Kind(
        "docx",
        "a Word document (DOCX)",
        (".docx", ".docm", ".dotx"),
        (f"{_OFFICE}wordprocessingml.document", "application/vnd.ms-word.document.macroenabled.12"),
    ),
    Kind(
        "pptx",
        "a PowerPoint presentation (PPTX)",
        (".pptx", ".pptm", ".ppsx"),
        (f"{_OFFICE}presentationml.presentation", "application/vnd.ms-powerpoint.presentation.macroenabled.12"),
    ),
    Kind(
        "xlsx",
        "an Excel workbook (XLSX)",
        (".xlsx", ".xlsm", ".xltx"),
        (f"{_OFFICE}spreadsheetml.sheet", "application/vnd.ms-excel.sheet.macroenabled.12"),
    ),
    Kind("odt", "an OpenDocument text (ODT)", (".odt", ".ott"), ("application/vnd.oasis.opendocument.text",)),
    Kind("ods", "an OpenDocument spreadsheet (ODS)", (".ods",), ("application/vnd.oasis.opendocument.spreadsheet",)),
    Kind("odp", "an OpenDocument presentation (ODP)", (".odp",), ("application/vnd.oasis.opendocument.presentation",)),
    Kind("epub", "an EPUB book", (".epub",), ("application/epub+zip",)),
    Kind("ipynb", "a notebook", (".ipynb",), ("application/x-ipynb+json",), needs_formats=False),
    Kind("email", "an e-mail", (".eml",), ("message/rfc822",)),
    Kind("mbox", "a mailbox", (".mbox",), ("application/mbox",)),
    Kind("rst", "reStructuredText", (".rst", ".rest"), ("text/x-rst", "text/prs.fallenstein.rst")),
    Kind("csv", "a table (CSV)", (".csv",), ("text/csv",), needs_formats=False),
    Kind("tsv", "a table (TSV)", (".tsv", ".tab"), ("text/tab-separated-values",), needs_formats=False),
    Kind(
        "jsonl",
        "records (JSONL)",
        (".jsonl", ".ndjson"),
        ("application/jsonl", "application/x-ndjson"),
        Syntax.TEXT,
        is_isolated=False,
        needs_formats=False,
        is_records=True,
    ),
    Kind(
        "markdown",
        "Markdown",
        (".md", ".markdown"),
        ("text/markdown", "text/x-markdown"),
        is_isolated=False,
        needs_formats=False,
    ),
    Kind(
        "code",
        "source code",
        tuple(f".{name}" for name in _CODE_NAMES.split()),
        (
            "text/x-python",
            "text/javascript",
            "application/javascript",
            "application/x-sh",
            "text/css",
            "application/yaml",
        ),
        Syntax.CODE,
        is_isolated=False,
        needs_formats=False,
    ),
    Kind("text", "a text", (".txt", ".text"), ("text/plain",), Syntax.TEXT, is_isolated=False, needs_formats=False),
)

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes}
_BY_MEDIA_TYPE = {media_type: kind for kind in KINDS for media_type in kind.media_types}


def kind_named(name: str) -> Kind:
    """Return the kind of a name in the table. Raises KeyError for other names."""
    return _BY_NAME[name]


def kind_of(name: str, media_type: str | None = None) -> Kind | None:
    """Return the kind of a file by the suffix of its name, else by its media type; None when neither is known.

    Any other `text/…` is a text, unless the name has a suffix that is not known.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    essence = (media_type or "").partition(";")[0].strip().lower()
    if essence in _BY_MEDIA_TYPE:
        return _BY_MEDIA_TYPE[essence]
    return _BY_NAME["text"] if essence.startswith("text/") and not suffix else None


def kind_of_file(name: str, opened: Callable[[], BinaryIO], media_type: str | None = None) -> Kind:
    """Return the kind of a file by its name and media type or, without a suffix, by its content.

    Raises UnreadableError for another kind, and what `opened` raises.
    """
    kind = kind_of(name, media_type)
    if kind is None and not PurePosixPath(name).suffix:
        try:
            with opened() as file:
                content = file.read(_FIRST_BYTES)
                if content.startswith(_ARCHIVE_START):  # whose table of contents is at its end
                    content += file.read(_ARCHIVE_BYTES)
        except OSError as error:
            raise UnreadableError(f"cannot be read: {error.strerror}") from error
        kind = _kind_of_content(content)
    if kind is None:
        raise UnreadableError("is of no kind that can be read", code=UNSUPPORTED_KIND)
    return kind


def _kind_of_content(content: bytes) -> Kind | None:
    """Return the kind that a file without a suffix has by its first bytes (an archive: by its members)."""
    if is_pdf(content):
        return _BY_NAME["pdf"]
    start = content[:_SNIFFED_BYTES].lstrip()
    if start.startswith(_ARCHIVE_START):
        return _kind_of_archive(content)
    beginning = start.removeprefix(b"\xef\xbb\xbf")[:512].lower()
    if beginning.startswith((b"<!doctype html", b"<html")) or (
        beginning.startswith(b"<?xml") and b"<html" in beginning
    ):
        return _BY_NAME["html"]
    if beginning.startswith(b"{") and b'"nbformat"' in content:
        return _BY_NAME["ipynb"]
    return (
        None
        if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))
        else _BY_NAME["text"]
    )


def is_pdf(content: bytes) -> bool:
    """Return whether a file begins as PDFs do. One that is all ASCII would otherwise pass for a text."""
    return content[:_SNIFFED_BYTES].lstrip().startswith(_PDF_START)


def _kind_of_archive(content: bytes) -> Kind | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = set(archive.namelist())
            declared = archive.read("mimetype")[:100].decode("ascii", "replace") if "mimetype" in members else ""
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, ValueError, EOFError):
        return None  # damaged, encrypted, or of a compression that zipfile does not know
    if declared.strip() in _BY_MEDIA_TYPE:
        return _BY_MEDIA_TYPE[declared.strip()]
    main = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
    return next((_BY_NAME[name] for member, name in main.items() if member in members), None)
