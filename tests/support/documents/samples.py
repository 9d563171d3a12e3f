"""Files of every kind, made by the formats' own libraries or by hand: headings, a table, several pages.

Every file of structure tells of a tide table: `HEADINGS` are its headings, `CELLS` the rows of its table; most can tell
of another subject, with other headings and texts of their sections.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from email.message import EmailMessage
from types import MappingProxyType
from typing import Any

import docx
import pptx
import xlsxwriter
from fpdf import FPDF, TextStyle

Rows = tuple[tuple[str, ...], ...]
Sections = tuple[tuple[str, str], ...]
"""Headings and texts."""
Tables = Mapping[str, Rows]
HEADINGS = ("Tides of the bay", "High water", "Low water")
CELLS = (("Place", "Hours"), ("Harbour", "12"), ("Island", "15"))
HIGH = "The harbour floods at noon, and boats with a deep keel may leave."
LOW = "The sandbank dries at dusk, and seals rest on it until the water returns."
SECTIONS = ((HEADINGS[1], HIGH), (HEADINGS[2], LOW))
TABLES = dict.fromkeys(HEADINGS[1:], CELLS)
PIPE_TABLE = "| Place | Hours |\n| --- | --- |\n| Harbour | 12 |\n| Island | 15 |"


def zipped(members: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def pdf(pages: int = 3, *, title: str | None = "Tides", password: str | None = None, text: bool = True) -> bytes:
    """A running header and a page number on each page; a section for each page after the first."""

    class Paper(FPDF):
        def header(self) -> None:
            self.set_font("helvetica", size=8)
            self.cell(0, 10, "Almanac of the coast", new_x="LMARGIN", new_y="NEXT")

        def footer(self) -> None:
            self.set_y(-15)
            self.set_font("helvetica", size=8)
            self.cell(0, 10, f"Page {self.page_no()}")

    paper = Paper() if text else FPDF()
    if title:
        paper.set_title(title)
        paper.set_author("Ada Tide")
        paper.set_keywords("sea, moon")
    if password:
        paper.set_encryption(owner_password="owner", user_password=password)
    for number in range(pages):
        paper.add_page()
        if not text:
            paper.rect(10, 10, 50, 50)
            continue
        paper.set_font("helvetica", "B", 20 if number == 0 else 15)
        paper.multi_cell(
            0, 10, HEADINGS[0] if number == 0 else HEADINGS[1 + (number - 1) % 2], new_x="LMARGIN", new_y="NEXT"
        )
        paper.set_font("helvetica", size=11)
        sentence = HIGH if number % 2 else LOW
        for paragraph in range(4):
            paper.multi_cell(
                0, 6, f"{sentence} " * 3 + f"So it is on day {number * 4 + paragraph}.", new_x="LMARGIN", new_y="NEXT"
            )
            paper.ln(6)
    return bytes(paper.output())


def outlined_pdf() -> bytes:
    """Bookmarks instead of large letters, and a word divided at the end of a line."""
    paper = FPDF()
    paper.set_font("helvetica", size=11)
    paper.set_section_title_styles(TextStyle("helvetica", "", 11), TextStyle("helvetica", "", 11))
    for number, heading in enumerate(HEADINGS):
        paper.add_page()
        paper.start_section(heading, level=min(number, 1))
        paper.set_font("helvetica", size=11)
        paper.multi_cell(
            0,
            6,
            f"{HIGH if number == 1 else LOW}\nThe light-\nhouse is lit from seven to seven.\n{'More of day ' + str(number)}.\n"
            + "\n".join(f"Line {number}.{each} of the log" for each in range(4)),
            new_x="LMARGIN",
            new_y="NEXT",
        )
    return bytes(paper.output())


def docx_file(title: str = "Tides", top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    document = docx.Document()
    document.core_properties.title = title
    document.core_properties.author = "Ada Tide"
    document.core_properties.keywords = "sea, moon"
    document.add_heading(top, 0)
    for level, (heading, text) in enumerate(sections, start=1):
        document.add_heading(heading, level)
        document.add_paragraph(text)
        if level == 1:
            document.add_paragraph("Bring boots", style="List Bullet")
    fill(document.add_table(len(CELLS), 2))
    return saved(document)


def fill(table: Any) -> None:
    for row, cells in zip(table.rows, CELLS, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text


def saved(document: docx.document.Document | pptx.presentation.Presentation) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def pptx_file(title: str = "Tides", top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    presentation = pptx.Presentation()
    presentation.core_properties.title = title
    for heading, text in ((top, "An almanac"), *sections):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = heading
        slide.placeholders[1].text = text
    slide.notes_slide.notes_text_frame.text = "Speak of the seals"
    fill(slide.shapes.add_table(len(CELLS), 2, 0, 0, 5_000_000, 1_000_000).table)
    return saved(presentation)


def xlsx_file(title: str = "Tides", tables: Tables = TABLES) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True}) as workbook:
        workbook.set_properties({"title": title, "author": "Ada Tide"})
        for name, rows in tables.items():
            sheet = workbook.add_worksheet(name)
            for row, cells in enumerate(rows, start=2):
                for column, text in enumerate(cells, start=1):
                    sheet.write(row, column, int(text) if text.isdigit() else text)
        workbook.add_worksheet("Secret").hide()
    return file.getvalue()


_ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
    'xmlns:form="urn:oasis:names:tc:opendocument:xmlns:form:1.0" '
    'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" '
    'xmlns:meta="urn:oasis:names:tc:opendocument:xmlns:meta:1.0" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"'
)


def odf(kind: str, body: str, styles: str = "", pages: str = "") -> bytes:
    """`styles` are those of the content, `pages` the masters of its pages."""
    content = f"<office:automatic-styles>{styles}</office:automatic-styles><office:body>{body}</office:body>"
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_ODF}>{content}</office:document-content>",
            "styles.xml": f"<office:a {_ODF}><office:master-styles>{pages}</office:master-styles></office:a>",
            "meta.xml": f"<office:document-meta {_ODF}><office:meta><dc:title>Tides</dc:title><dc:creator>Ada Tide"
            "</dc:creator><dc:language>en-GB</dc:language><meta:keyword>sea</meta:keyword></office:meta></office:document-meta>",
        }
    )


def _odf_table(name: str, rows: Rows) -> str:
    cells = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format
    told = "".join(f"<table:table-row>{''.join(map(cells, row))}</table:table-row>" for row in rows)
    return f'<table:table table:name="{name}">{told}</table:table>'


def odt_file(top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    first, second = (f'<text:h text:outline-level="2">{head}</text:h><text:p>{text}' for head, text in sections)
    return odf(
        "text",
        f'<office:text><text:h text:outline-level="1">{top}</text:h>{first}</text:p>'
        "<text:list><text:list-item><text:p>Bring boots</text:p></text:list-item></text:list>"
        f"{second}<text:line-break/>Twice</text:p>{_odf_table('Hours', CELLS)}</office:text>",
    )


def odp_file(top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    slides = "".join(
        f'<draw:page draw:name="p"><draw:frame><draw:text-box><text:p>{heading}</text:p></draw:text-box></draw:frame>'
        f"<draw:frame><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame></draw:page>"
        for heading, text in ((top, "An almanac"), *sections)
    )
    return odf("presentation", f"<office:presentation>{slides}</office:presentation>")


def ods_file(tables: Tables = MappingProxyType({"Hours": CELLS})) -> bytes:
    told = "".join(_odf_table(name, rows) for name, rows in tables.items())
    return odf("spreadsheet", f"<office:spreadsheet>{told}</office:spreadsheet>")


def html_table() -> str:
    rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in CELLS)
    return f"<table>{rows}</table>"


def html_page(title: str = "Tides", top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    (first, high), (second, low) = sections
    return f"""<!DOCTYPE html><html lang="en-GB"><head><meta charset="utf-8"><title>{title}</title>
<meta name="author" content="Ada Tide"><script>alert("script")</script><style>p {{color: red}}</style></head><body>
<header><a href="/">Home of the almanac</a></header><nav><ul><li><a href="/a">Navigation</a></li></ul></nav>
<div id="cookie-banner">We use cookies <button>Accept</button></div><div hidden>Hidden words</div>
<main><h1>{top}<a href="#t">¶</a></h1><h2>{first}</h2><p>{high}</p><ol><li>Bring boots<ul><li>of rubber</li></ul>
</li><li>and a <b>map</b></li></ol><pre><code class="language-python">x = 1
# no heading
</code></pre><h2>{second}</h2><p>{low}<br># no heading either</p>{html_table()}</main>
<aside>Related pages</aside><footer>Imprint</footer></body></html>""".encode()


def epub_file(title: str = "Tides", sections: Sections = SECTIONS) -> bytes:
    (first, high), (second, low) = sections
    chapters = {
        "two.xhtml": f"<html><body><h1>{second}</h1><p>{low}</p>{html_table()}</body></html>",
        "one.xhtml": f"<html><body><h1>{first}</h1><p>{high}&nbsp;</p></body></html>",
    }
    package = f"""<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>
<dc:title>{title}</dc:title><dc:creator>Ada Tide</dc:creator><dc:language>en-GB</dc:language><dc:subject>sea</dc:subject>
</metadata><manifest><item id="n" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>
<item id="2" href="two.xhtml" media-type="application/xhtml+xml"/><item id="1" href="one.xhtml" media-type="application/xhtml+xml"/>
</manifest><spine><itemref idref="n"/><itemref idref="1"/><itemref idref="2"/></spine></package>"""
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OPS/book.opf"/></rootfiles></container>',
            "OPS/book.opf": package,
            "OPS/nav.xhtml": "<html><body>Contents of the book</body></html>",
            **{f"OPS/{name}": page for name, page in chapters.items()},
        }
    )


def notebook(top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    (first, high), (second, low) = sections
    return json.dumps(
        {
            "nbformat": 4,
            "metadata": {"language_info": {"name": "python"}},
            "cells": [
                {"cell_type": "markdown", "source": [f"# {top}\n", "\n", f"## {first}\n", high]},
                {
                    "cell_type": "code",
                    "source": "# no heading\nprint(12)",
                    "outputs": [
                        {"output_type": "stream", "text": ["12\n"]},
                        {"output_type": "display_data", "data": {"image/png": "aGFsbG8=", "text/plain": "x" * 5_000}},
                    ],
                },
                {"cell_type": "markdown", "source": f"## {second}\n{low}\n\n{PIPE_TABLE}"},
            ],
        }
    ).encode()


def mail(subject: str = HEADINGS[0], *texts: str, only_html: bool = False) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ada Tide <ada@example.org>", "bo@example.org", subject
    if only_html:
        message.set_content(
            f"<h2>{HEADINGS[1]}</h2><p>{HIGH}</p>{html_table()}<script>alert(1)</script>", subtype="html"
        )
    else:
        texts = texts or (HIGH, LOW)
        message.set_content("\n\n".join((*texts, "")))
        message.add_alternative(f"<p>{texts[0]}</p>", subtype="html")
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="chart.pdf")
    return message.as_bytes()


def mailbox(*mails: bytes) -> bytes:
    return b"".join(
        b"From ada@example.org Mon Nov 23 00:00:00 2026\n" + each.replace(b"\nFrom ", b"\n>From ") + b"\n\n"
        for each in mails or (mail(HEADINGS[1]), mail(HEADINGS[2], only_html=True))
    )


def rst(top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    (first, high), (second, low) = sections
    return f"""{top}
{"=" * len(top)}

{first}
{"-" * len(first)}

{high} See :ref:`the chart <chart>` and :py:func:`~sea.level`.

.. code-block:: python

   # no heading
   x = 1

.. versionadded:: 2.0
   The moon counts.

{second}
{"-" * len(second)}

{low}

=======  =====
Place    Hours
=======  =====
Harbour  12
Island   15
=======  =====

.. include:: /etc/passwd

.. raw:: html

   <script>alert(1)</script>
""".encode()


CSV = "\n".join(";".join(row) for row in CELLS).encode()
TSV = "\n".join("\t".join(row) for row in CELLS).encode()
SUBTITLES = f"""WEBVTT

NOTE nobody says this

00:01.000 --> 00:02.500 align:start
<v Ada>{HIGH[:27]}

00:02.500 --> 00:04.000
<v Ada><i>{HIGH[27:].strip()}</i>

00:04.000 --> 00:05.000
<v Bo>{LOW}
{LOW}
""".encode()
CODE = b"def tide():\n    return 12\n"
TEXT = f"{HIGH}\n\n{LOW}\n".encode()


def markdown(title: str = "Tides", top: str = HEADINGS[0], sections: Sections = SECTIONS) -> bytes:
    (first, high), (second, low) = sections
    return f"""---
title: {title}
tags: sea, moon
---
# {top}

## {first}
{high}

## {second}
{low}

{PIPE_TABLE}
""".encode()


def samples() -> dict[str, tuple[str, bytes]]:
    """Return a file of every kind that is read: the kind's name to (name of the file, its bytes)."""
    return {
        "pdf": ("a.pdf", pdf()),
        "html": ("a.html", html_page()),
        "docx": ("a.docx", docx_file()),
        "pptx": ("a.pptx", pptx_file()),
        "xlsx": ("a.xlsx", xlsx_file()),
        "odt": ("a.odt", odt_file()),
        "ods": ("a.ods", ods_file()),
        "odp": ("a.odp", odp_file()),
        "epub": ("a.epub", epub_file()),
        "ipynb": ("a.ipynb", notebook()),
        "email": ("a.eml", mail()),
        "mbox": ("a.mbox", mailbox()),
        "rst": ("a.rst", rst()),
        "csv": ("a.csv", CSV),
        "tsv": ("a.tsv", TSV),
        "subtitles": ("a.vtt", SUBTITLES),
        "markdown": ("a.md", markdown()),
        "code": ("a.py", CODE),
        "text": ("a.txt", TEXT),
    }
