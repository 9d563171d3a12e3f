"""The kinds of documents: the one table of what can be loaded, watched, uploaded and ingested."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from retrieval.chunking import Syntax
from retrieval.parsing.child import PARSERS
from retrieval.parsing.parsed import DAMAGED_ARCHIVE, UNSUPPORTED_KIND, UnreadableError
from retrieval.reading.not_read import INSTEAD, instead_of

_CODE_NAMES = """
    py pyi js mjs cjs jsx ts tsx vue svelte css scss less java kt kts scala groovy cs fs vb go rs swift zig dart
    c h cc cpp cxx hh hpp hxx m mm rb php pl pm lua r jl ex exs erl hs ml clj el
    sh bash zsh fish ps1 bat sql graphql proto tf cmake gradle
    yaml yml toml ini cfg conf properties json json5 jsonc xml
"""
_CODE_TYPES = """
    text/x-python text/javascript application/javascript application/x-sh text/css
    application/yaml application/toml application/json application/xml text/xml
"""
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MACROS = ".macroenabled.12"
_OPEN = "application/vnd.oasis.opendocument."
_NOT_OF_ODF = "hidden text, comments, charts and embedded objects"
_SNIFFED_BYTES = 4096
_FIRST_BYTES, _ARCHIVE_BYTES = 1 << 16, 64 << 20
"""How much of a file without a suffix tells its kind, and how much more of an archive."""
_ARCHIVE_START = b"PK\x03\x04"
_PDF_START = b"%PDF-"
_IMAGE_STARTS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of document.

    `label` is what people call a file of it. `suffixes` are in lower case and begin with a dot. `syntax` is that of the
    text that reading makes. `reads`, `leaves_out` and `marks` are for the table of docs/reading.md: what becomes text,
    what does not, of which a warning tells, and what chunks know of their place. Where the text `begins_with_title`,
    a heading at its beginning is the title of the whole, and not that of its first part.
    """

    name: str
    label: str
    suffixes: tuple[str, ...]
    media_types: tuple[str, ...]
    reads: str
    leaves_out: str = ""
    marks: str = ""
    syntax: Syntax = Syntax.MARKDOWN
    begins_with_title: bool = True

    @property
    def is_isolated(self) -> bool:
        """Return whether it is parsed in a process of its own, with limits."""
        return self.name in PARSERS

    @property
    def is_records(self) -> bool:
        """Return whether each line is a document of its own."""
        return self.name == "jsonl"

    @property
    def is_archive(self) -> bool:
        """Return whether each member is a document of its own."""
        return self.name == "zip"

    @property
    def holds_documents(self) -> bool:
        """Return whether there is no one text to read."""
        return self.is_records or self.is_archive


def _kind(name: str, label: str, suffixes: str, media_types: str, reads: str, **more: Any) -> Kind:
    return Kind(name, label, tuple(f".{each}" for each in suffixes.split()), tuple(media_types.split()), reads, **more)


KINDS: tuple[Kind, ...] = (
    _kind(
        *("pdf", "a PDF", "pdf", "application/pdf"),
        "the text layer; headings by the bookmarks, else by the size and weight of letters; tables whose cells are "
        "divided by lines; values of forms and notes, where they lie; columns one after the other; no running headers, "
        "footers or page numbers; divided words are joined, and keep a hyphen of their own; pages without text are "
        "[recognised](#scans)",
        leaves_out="damaged pages, passwords and hidden fields of forms, signatures, attached files, forms in XFA",
        marks="page",
    ),
    _kind(
        *("html", "an HTML page", "html htm xhtml shtml xht", "text/html application/xhtml+xml"),
        "the main content with tabs and folded answers; values and boxes of forms; formulas in TeX or as their signs; "
        "no navigation, page header or footer, asides, consent banners, scripts or addresses of links",
        leaves_out="hidden passages",
    ),
    _kind(
        *("docx", "a Word document (DOCX)", "docx docm dotx"),
        f"{_OFFICE}wordprocessingml.document application/vnd.ms-word.document{_MACROS}",
        "headings and lists with their numbers, tables, text boxes, boxes and choices of forms, equations on a line, "
        "SmartArt, charts as tables, notes; page headers first and footers last, once; no table of contents, no "
        "deleted revisions",
        leaves_out="hidden text, comments, embedded objects, charts without values",
    ),
    _kind(
        *("pptx", "a PowerPoint presentation (PPTX)", "pptx pptm ppsx"),
        f"{_OFFICE}presentationml.presentation application/vnd.ms-powerpoint.presentation{_MACROS}",
        "each slide a section, with its tables, SmartArt, charts as tables, equations, descriptions of pictures, and "
        "notes",
        leaves_out="hidden slides and shapes, comments, embedded objects, charts without values",
        marks="slide",
    ),
    _kind(
        *("xlsx", "an Excel workbook (XLSX)", "xlsx xlsm xltx"),
        f"{_OFFICE}spreadsheetml.sheet application/vnd.ms-excel.sheet{_MACROS}",
        "each sheet as it is shown: numbers by their formats, dates in ISO, words of shapes; a formula without a "
        "stored value as the formula",
        leaves_out="hidden sheets, rows and columns, comments",
        marks="sheet",
        begins_with_title=False,
    ),
    _kind("odt", "an OpenDocument text (ODT)", "odt ott", f"{_OPEN}text", "as of Word", leaves_out=_NOT_OF_ODF),
    _kind(
        *("ods", "an OpenDocument spreadsheet (ODS)", "ods", f"{_OPEN}spreadsheet"),
        "as of Excel",
        leaves_out=f"{_NOT_OF_ODF}, hidden sheets, rows and columns",
        marks="sheet",
        begins_with_title=False,
    ),
    _kind(
        *("odp", "an OpenDocument presentation (ODP)", "odp", f"{_OPEN}presentation"),
        "as of PowerPoint",
        leaves_out=f"{_NOT_OF_ODF}, hidden slides",
        marks="slide",
    ),
    _kind(
        *("epub", "an EPUB book", "epub", "application/epub+zip"),
        "the chapters in the order of the spine; those without headings have the titles of the table of contents",
        leaves_out="chapters that are missing or damaged, hidden passages",
    ),
    _kind(
        *("ipynb", "a notebook", "ipynb", "application/x-ipynb+json"),
        "Markdown as it is, code in fences, outputs as Markdown, tables or text of up to 2,000 characters (20,000 of "
        "Markdown and HTML)",
        leaves_out="longer outputs, pictures",
    ),
    _kind(
        *("email", "an e-mail", "eml", "message/rfc822"),
        "headers, of each alternative one text, every other text part, mails within it as sections, invitations",
        leaves_out="attachments, encrypted parts",
    ),
    _kind(
        *("mbox", "a mailbox", "mbox", "application/mbox"),
        "each mail a section",
        leaves_out="attachments, encrypted parts",
        begins_with_title=False,
    ),
    _kind(
        *("rst", "reStructuredText", "rst rest", "text/x-rst text/prs.fallenstein.rst"),
        "what docutils reads; unknown roles and directives keep their text; nothing is included",
    ),
    _kind(
        *("csv", "a table (CSV)", "csv", "text/csv"),
        "tables, with the lines above and below them as text; the delimiter is found, or named by `sep=`",
    ),
    _kind("tsv", "a table (TSV)", "tsv tab", "text/tab-separated-values", "as of CSV"),
    _kind(
        *("image", "a picture", "png jpg jpeg tif tiff", "image/png image/jpeg image/tiff"),
        "the text that is [recognised](#scans) in it, on each page of a TIFF",
        marks="page",
    ),
    _kind(
        *("jsonl", "records (JSONL)", "jsonl ndjson", "application/jsonl application/x-ndjson"),
        "not one text: each line is a document",
        syntax=Syntax.TEXT,
    ),
    _kind(
        *("zip", "a ZIP archive of documents", "zip", "application/zip application/x-zip-compressed"),
        "not one text: each member is a document, `archive.zip/name`; no archives within it",
        leaves_out="members that are encrypted, hidden or of no kind of this table",
        syntax=Syntax.TEXT,
    ),
    _kind(
        *("subtitles", "subtitles", "srt vtt", "application/x-subrip text/vtt"),
        "what is said, with the names of speakers; no times, numbers, notes and styles",
        syntax=Syntax.TEXT,
    ),
    _kind(
        *("markdown", "Markdown", "md markdown mdown mkd mdx qmd rmd", "text/markdown text/x-markdown"),
        "as it is; front matter in YAML or TOML becomes metadata; no comments",
    ),
    _kind("code", "source code", _CODE_NAMES, _CODE_TYPES, "as it is", syntax=Syntax.CODE),
    _kind("text", "a text", "txt text log adoc asciidoc org tex latex", "text/plain", "as it is", syntax=Syntax.TEXT),
)

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes}
_BY_MEDIA_TYPE = {media_type: kind for kind in KINDS for media_type in kind.media_types}


def kind_named(name: str) -> Kind:
    """Return the kind of a name in the table. Raises KeyError for other names."""
    return _BY_NAME[name]


def kind_of(name: str, media_type: str | None = None) -> Kind | None:
    """Return the kind of a file by the suffix of its name, else by its media type; None when neither is known.

    Any other `text/…` is a text, unless the name has a suffix that is not known, or one of `INSTEAD`.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in INSTEAD:
        return None
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
        raise UnreadableError(instead_of(name) or "is of no kind that can be read", code=UNSUPPORTED_KIND)
    return kind


def _kind_of_content(content: bytes) -> Kind | None:
    """Return the kind that a file without a suffix has by its first bytes (an archive: by its members)."""
    if is_pdf(content):
        return _BY_NAME["pdf"]
    if content.startswith(_IMAGE_STARTS):
        return _BY_NAME["image"]
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
    is_binary = b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))
    return None if is_binary else _BY_NAME["text"]


def is_pdf(content: bytes) -> bool:
    """Return whether a file begins as PDFs do. One that is all ASCII would otherwise pass for a text."""
    return content[:_SNIFFED_BYTES].lstrip().startswith(_PDF_START)


def _kind_of_archive(content: bytes) -> Kind | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = set(archive.namelist())
            declared = archive.read("mimetype")[:100].decode("ascii", "replace") if "mimetype" in members else ""
    except DAMAGED_ARCHIVE:
        return None
    if declared.strip() in _BY_MEDIA_TYPE:
        return _BY_MEDIA_TYPE[declared.strip()]
    main = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
    return next((_BY_NAME[name] for member, name in main.items() if member in members), None)


def kinds_table() -> str:
    """Return the table of docs/reading.md."""
    rows = [("Kind", "Suffixes", "What is read", "Left out, with a warning", "Marks"), ("---",) * 5]
    for kind in KINDS:
        suffixes = " ".join(f"`{suffix}`" for suffix in kind.suffixes)
        marks = f"`{kind.marks}`" if kind.marks else ""
        rows.append((f"`{kind.name}`", suffixes, kind.reads, kind.leaves_out, marks))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
