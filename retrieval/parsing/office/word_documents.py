"""Word documents (DOCX): their paragraphs, headings, lists, tables and notes."""

from __future__ import annotations

import io
import xml.dom.expatbuilder  # noqa: F401  mammoth would import it while it reads

import mammoth

from retrieval.parsing.html_pages import body_blocks
from retrieval.parsing.office.archives import core_properties, open_archive
from retrieval.parsing.parsed import MarkdownText, Parsed

_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
r[style-name='Code'] => code
"""


def parse(content: bytes) -> Parsed:
    """Return a document's text. Pictures are left out, macros are never looked at."""
    archive = open_archive(content, "a Word document")
    title, metadata = core_properties(archive)
    for name in archive.file.namelist():
        if name.endswith((".xml", ".rels")):
            archive.xml(name)  # refuses entities before a parser that would expand them reads the archive
    page = mammoth.convert_to_html(
        io.BytesIO(content), convert_image=mammoth.images.img_element(lambda image: {}), style_map=_STYLES
    ).value
    document = MarkdownText()
    document.add(*body_blocks(page))
    return document.parsed(title, metadata)
