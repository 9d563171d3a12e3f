"""Files of every kind about one subject each: prose that a question can be asked of, in sections with headings."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from html import escape
from pathlib import Path

import docx
import pptx
import xlsxwriter
from fpdf import FPDF

from tests.support.documents.samples import odf, zipped


@dataclass(frozen=True, slots=True)
class Subject:
    """Sections of (heading, prose), a question, and the place of the section that answers it, from 0."""

    title: str
    question: str
    sections: tuple[tuple[str, str], ...]
    answer: int


def subjects(file: Path) -> list[Subject]:
    """Read subjects: `# title`, `? question`, and sections `- heading | prose`, of which `+` answers the question."""
    found = []
    for block in file.read_text().split("# ")[1:]:
        title, question, *sections = block.strip().splitlines()
        pairs = [tuple(line[2:].split(" | ")) for line in sections]
        answer = next(place for place, line in enumerate(sections) if line.startswith("+"))
        found.append(Subject(title, question.removeprefix("? "), tuple(pairs), answer))
    return found


def pdf(subject: Subject) -> bytes:
    """A page for each section."""
    paper = FPDF()
    for heading, prose in subject.sections:
        paper.add_page()
        for style, size, text in (("B", 16, heading), ("", 11, prose)):
            paper.set_font("helvetica", style, size)
            paper.multi_cell(0, size, text, new_x="LMARGIN", new_y="NEXT")
    return bytes(paper.output())


def html(subject: Subject) -> bytes:
    body = "".join(f"<h2>{escape(heading)}</h2><p>{escape(prose)}</p>" for heading, prose in subject.sections)
    return (
        f"<!DOCTYPE html><html><head><title>{subject.title}</title></head><body><nav><a href='/'>Home</a></nav>"
        f"<main><h1>{subject.title}</h1>{body}</main></body></html>"
    ).encode()


def word(subject: Subject) -> bytes:
    document = docx.Document()
    document.add_heading(subject.title, 0)
    for heading, prose in subject.sections:
        document.add_heading(heading, 1)
        document.add_paragraph(prose)
    return _saved(document)


def slides(subject: Subject) -> bytes:
    presentation = pptx.Presentation()
    for heading, prose in subject.sections:
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = heading, prose
    return _saved(presentation)


def workbook(subject: Subject) -> bytes:
    """A sheet for each section."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True}) as book:
        for heading, prose in subject.sections:
            sheet = book.add_worksheet(heading)
            for row, cells in enumerate((("Topic", "Remark"), (subject.title, prose))):
                sheet.write_row(row, 0, cells)
    return file.getvalue()


def odt(subject: Subject) -> bytes:
    body = "".join(
        f'<text:h text:outline-level="2">{escape(heading)}</text:h><text:p>{escape(prose)}</text:p>'
        for heading, prose in subject.sections
    )
    return odf("text", f'<office:text><text:h text:outline-level="1">{subject.title}</text:h>{body}</office:text>')


def odp(subject: Subject) -> bytes:
    def box(text: str) -> str:
        return f"<draw:frame><draw:text-box><text:p>{escape(text)}</text:p></draw:text-box></draw:frame>"

    pages = "".join(f"<draw:page>{box(heading)}{box(prose)}</draw:page>" for heading, prose in subject.sections)
    return odf("presentation", f"<office:presentation>{pages}</office:presentation>")


def ods(subject: Subject) -> bytes:
    def cell(text: str) -> str:
        return f"<table:table-cell><text:p>{escape(text)}</text:p></table:table-cell>"

    tables = "".join(
        f'<table:table table:name="{escape(heading)}"><table:table-row>{cell("Topic")}{cell("Remark")}</table:table-row>'
        f"<table:table-row>{cell(subject.title)}{cell(prose)}</table:table-row></table:table>"
        for heading, prose in subject.sections
    )
    return odf("spreadsheet", f"<office:spreadsheet>{tables}</office:spreadsheet>")


def epub(subject: Subject) -> bytes:
    """A chapter for each section."""
    numbers = range(len(subject.sections))
    items = "".join(f'<item id="c{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in numbers)
    spine = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    chapters = {
        f"{n}.xhtml": f"<html><body><h1>{escape(heading)}</h1><p>{escape(prose)}</p></body></html>"
        for n, (heading, prose) in enumerate(subject.sections)
    }
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="book.opf"/></rootfiles></container>',
            "book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<metadata><dc:title>{subject.title}</dc:title></metadata><manifest>{items}</manifest>"
            f"<spine>{spine}</spine></package>",
            **chapters,
        }
    )


def notebook(subject: Subject) -> bytes:
    cells = [{"cell_type": "markdown", "source": f"## {heading}\n{prose}"} for heading, prose in subject.sections]
    code = {"cell_type": "code", "source": "print(12)", "outputs": []}
    title = {"cell_type": "markdown", "source": f"# {subject.title}"}
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": [title, code, *cells]}).encode()


def mail(subject: Subject) -> bytes:
    """One mail of all sections."""
    return _mail(subject.title, "\n\n".join(f"{heading}: {prose}" for heading, prose in subject.sections))


def mailbox(subject: Subject) -> bytes:
    """A mail for each section."""
    envelope = b"From ada@example.org Mon Nov 23 00:00:00 2026\n"
    return b"".join(envelope + _mail(heading, prose) + b"\n\n" for heading, prose in subject.sections)


def rst(subject: Subject) -> bytes:
    def heading(text: str, mark: str) -> str:
        return f"{text}\n{mark * len(text)}\n\n"

    sections = "".join(heading(each, "-") + prose + "\n\n" for each, prose in subject.sections)
    return (heading(subject.title, "=") + sections).encode()


def table(subject: Subject, delimiter: str) -> bytes:
    rows = [("Topic", "Aspect", "Remark"), *((subject.title, *each) for each in subject.sections)]
    return "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows).encode()


def markdown(subject: Subject) -> bytes:
    sections = "".join(f"\n## {heading}\n\n{prose}\n" for heading, prose in subject.sections)
    return f"---\ntitle: {subject.title}\ntags: library\n---\n# {subject.title}\n{sections}".encode()


def python(subject: Subject) -> bytes:
    functions = "".join(
        f'\n\ndef {heading.lower().replace(" ", "_")}():\n    """{prose}"""\n' for heading, prose in subject.sections
    )
    return f'"""{subject.title}."""\n{functions}'.encode()


def sql(subject: Subject) -> bytes:
    return "\n".join(f"-- {heading}: {prose}\nSELECT 1;" for heading, prose in subject.sections).encode()


def text(subject: Subject, encoding: str = "utf-8") -> bytes:
    """Lines of a typewriter, with a letter that no two encodings write alike."""
    paragraphs = [textwrap.fill(f"{heading}. {prose}", 80) for heading, prose in subject.sections]
    return "\r\n\r\n".join([f"{subject.title} (© Ada)", *paragraphs]).encode(encoding)


def _mail(title: str, body: str) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ada <ada@example.org>", "bo@example.org", title
    message.set_content(body)
    return message.as_bytes()


def _saved(document: docx.document.Document | pptx.presentation.Presentation) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


FILES: tuple[tuple[str, str, Callable[[Subject], bytes]], ...] = (
    ("pdf", "pdf", pdf),
    ("html", "html", html),
    ("html", "xhtml", html),
    ("docx", "docx", word),
    ("docx", "docm", word),
    ("pptx", "pptx", slides),
    ("pptx", "ppsx", slides),
    ("xlsx", "xlsx", workbook),
    ("xlsx", "xlsm", workbook),
    ("odt", "odt", odt),
    ("odt", "ott", odt),
    ("odp", "odp", odp),
    ("odp", "odp", odp),
    ("ods", "ods", ods),
    ("ods", "ods", ods),
    ("epub", "epub", epub),
    ("epub", "epub", epub),
    ("ipynb", "ipynb", notebook),
    ("ipynb", "ipynb", notebook),
    ("email", "eml", mail),
    ("email", "EML", mail),
    ("mbox", "mbox", mailbox),
    ("mbox", "mbox", mailbox),
    ("rst", "rst", rst),
    ("rst", "rest", rst),
    ("csv", "csv", lambda subject: table(subject, ",")),
    ("csv", "csv", lambda subject: table(subject, ";")),
    ("tsv", "tsv", lambda subject: table(subject, "\t")),
    ("tsv", "tab", lambda subject: table(subject, "\t")),
    ("markdown", "md", markdown),
    ("markdown", "markdown", markdown),
    ("code", "py", python),
    ("code", "sql", sql),
    ("text", "txt", text),
    ("text", "text", lambda subject: text(subject, "utf-16")),
    ("text", "txt", lambda subject: text(subject, "cp1252")),
    ("text", "txt", lambda subject: text(subject, "utf-8-sig")),
    ("text", "txt", lambda subject: text(subject, "utf-32")),
    ("pdf", "pdf", pdf),
    ("pdf", "", pdf),
)
"""A kind, a suffix ("" for a name without one) and how the file is made, for each subject."""
