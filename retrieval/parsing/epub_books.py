"""EPUB books: their chapters in the order of the spine."""

from __future__ import annotations

from posixpath import dirname, join, normpath
from urllib.parse import unquote

from lxml import etree

from retrieval.parsing.epub_contents import Entry, add_headings, contents_of
from retrieval.parsing.html_markdown import markdown_blocks
from retrieval.parsing.html_pages import HIDDEN_PASSAGES, characters, html_root, strip_hidden
from retrieval.parsing.office.archives import Archive, described, open_archive
from retrieval.parsing.parsed import EMPTY, ENCRYPTED, UNREADABLE, MarkdownText, Parsed, UnreadableError, losses

_LABEL = "an EPUB book"
_CHAPTERS = (".xhtml", ".html", ".htm", ".xml")
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"


def parse(content: bytes) -> Parsed:
    """Return the text of a book; the page of its contents is left out, and gives headings to chapters without."""
    archive = open_archive(content, _LABEL)
    _refuse_encrypted(archive)
    package_name = next((each.get("full-path") for each in archive.xml(_CONTAINER).iter("{*}rootfile")), None)
    if not package_name:
        raise UnreadableError(f"is not {_LABEL}: it names no package")
    package = archive.xml(package_name)
    folder = dirname(package_name)
    contents = contents_of(archive, package.findall("{*}manifest/{*}item"), folder)
    document, missing, hidden = MarkdownText(), 0, 0
    for name in _spine(package, folder):
        if not archive.has(name):
            missing += 1
            continue
        try:
            blocks, left_out = _chapter(characters(archive.read(name)), contents.get(name, []))
            document.add(*blocks)
            hidden += left_out
        except UnreadableError as error:
            if error.code != EMPTY:
                missing += 1
    if not document.text:
        raise UnreadableError("contains no text", EMPTY if not missing else UNREADABLE)
    title, metadata = described(package.iterfind("{*}metadata/{*}*"), "subject")
    warnings = losses(("Chapters that are missing or cannot be read: {}", missing), (HIDDEN_PASSAGES, hidden))
    return document.parsed(title, metadata, warnings=warnings)


def _chapter(page: str, entries: list[Entry]) -> tuple[list[str], int]:
    """Return the blocks of a chapter, and how many passages of it are hidden."""
    root = html_root(page)
    hidden = strip_hidden(root)
    body = next(iter(root.iter("body")), root)
    if entries:
        add_headings(body, entries)
    return markdown_blocks(body), hidden


def _refuse_encrypted(archive: Archive) -> None:
    """Fonts may be obfuscated; chapters must not be encrypted."""
    if archive.has(_ENCRYPTION):
        for reference in archive.xml(_ENCRYPTION).iter("{*}CipherReference"):
            if reference.get("URI", "").lower().endswith(_CHAPTERS):
                raise UnreadableError("is encrypted", ENCRYPTED)


def _spine(package: etree._Element, folder: str) -> list[str]:
    """Return the names of the chapters in the order in which they are read."""
    items = {
        item.get("id"): normpath(join(folder, unquote(item.get("href", ""))))
        for item in package.iterfind("{*}manifest/{*}item")
        if "nav" not in (item.get("properties") or "").split() and "html" in (item.get("media-type") or "html")
    }
    named = (each.get("idref") for each in package.iterfind("{*}spine/{*}itemref"))
    return list(dict.fromkeys(items[name] for name in named if name in items))
