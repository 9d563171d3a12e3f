"""Files that mean harm: bombs, loops, entities, names that lead out of a folder. None of them is large itself."""

import io
import zipfile
import zlib
from collections.abc import Callable

from tests.support.documents import samples
from tests.support.documents.samples import zipped

MEGABYTE = 1 << 20
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600
LAUGHS = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>'
MANIFEST = '<manifest:manifest xmlns:manifest="m"><manifest:encryption-data/></manifest:manifest>'
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHEET = f'<worksheet xmlns="{SHEETS}"><sheetData>{{}}</sheetData></worksheet>'
XML_PARTS = {
    "docx": (samples.docx_file, "word/document.xml", "<a>&c;</a>"),
    "pptx": (samples.pptx_file, "ppt/slides/slide1.xml", "<a>&c;</a>"),
    "xlsx": (
        samples.xlsx_file,
        "xl/worksheets/sheet1.xml",
        SHEET.format('<row r="1"><c r="A1" t="inlineStr"><is><t>&c;</t></is></c></row>'),
    ),
    "odt": (samples.odt_file, "content.xml", "<a>&c;</a>"),
    "ods": (samples.ods_file, "content.xml", "<a>&c;</a>"),
    "odp": (samples.odp_file, "content.xml", "<a>&c;</a>"),
    "epub": (samples.epub_file, "OPS/book.opf", "<a>&c;</a>"),
}
"""By kind: what makes a sound file, a part of it, and what refers there to the entity `c`."""


def changed(content: bytes, members: dict[str, str | bytes]) -> bytes:
    """Return an archive with members replaced or added."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return zipped({name: archive.read(name) for name in archive.namelist()} | members)


def with_entities(kind: str, declared: str) -> bytes:
    """Return a file with a part that declares entities and uses one."""
    if kind == "html":
        return f"<?xml version='1.0'?>{declared}<html><body><p>Before &c; after</p></body></html>".encode()
    make, part, body = XML_PARTS[kind]
    return changed(make(), {part: declared + body})


def outside(address: str) -> str:
    """Declare an entity that is to be fetched."""
    return f'<!DOCTYPE a [<!ENTITY c SYSTEM "{address}">]>'


def bomb() -> bytes:
    """Return an archive with a member that unpacks, by its directory, to more than four thousand times its size."""
    content = zipped({"word/document.xml": b"\0" * 150_000})
    return content.replace((150_000).to_bytes(4, "little"), (600 * MEGABYTE).to_bytes(4, "little"))


def long_text(kind: str) -> bytes:
    """Return a file with a part of well-formed XML that has a text of 100 MB."""
    make, part, _ = XML_PARTS[kind]
    return changed(make(), {part: b"<a>" + b"A" * (100 * MEGABYTE) + b"</a>"})


def lying_bomb(make: Callable[[], bytes], member: str) -> bytes:
    """Return an archive whose directory says that a member is short; it unpacks to 200 MB."""
    size = 200 * MEGABYTE  # packed quickly, it has some hundred kilobytes
    content = changed(make(), {member: b"<p>" + b"A" * (size - 3)})
    return content.replace(size.to_bytes(4, "little"), (1_000).to_bytes(4, "little"))


def nested() -> bytes:
    """Return an archive that unpacks to a terabyte when all archives in it are unpacked, too."""
    inner = zipped({"a": b"\0" * MEGABYTE})
    for _ in range(5):
        inner = zipped({f"{number}.zip": inner for number in range(16)})
    return inner


def pdf_of(*objects: bytes) -> bytes:
    """Return a PDF of these objects; the first one is its catalogue."""
    content, places = bytearray(b"%PDF-1.7\n"), []
    for number, each in enumerate(objects, start=1):
        places.append(b"%010d 00000 n \n" % len(content))
        content += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    count = len(objects) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n%b" % (count, b"".join(places))
    return bytes(content) + table + b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (count, len(content))


def many_pages(count: int) -> bytes:
    """Return a PDF with one page many times."""
    kids = b" ".join([b"3 0 R"] * count)
    return pdf_of(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%b]>>" % (count, kids),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
    )


def page_of(content: bytes, *, resources: bytes = b"", more: tuple[bytes, ...] = ()) -> bytes:
    """Return a PDF of one page; `more` are the objects from the fifth on."""
    return pdf_of(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<<%b>>>>" % resources,
        content,
        *more,
    )


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (entries, len(content), content)


def endless_pdf() -> bytes:
    """Return a PDF whose forms draw each other, ten times ten times ten …"""
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 99 99]/Resources<</XObject<</F %d 0 R>>>>"
    forms = [stream(b"/F Do " * 10, form % (6 + number)) for number in range(11)]
    last = stream(b"BT (x) Tj ET", b"/Type/XObject/Subtype/Form/BBox[0 0 99 99]")
    return page_of(stream(b"/F Do " * 10), resources=b"/XObject<</F 5 0 R>>", more=(*forms, last))


def flate_bomb() -> bytes:
    """Return a PDF whose page unpacks to 130 MB of words to be drawn."""
    packed = zlib.compress(b"BT (x) Tj ET " * 10_000_000, 1)
    return page_of(stream(packed, b"/Filter/FlateDecode"))


def annotated_pdf(annotations: bytes, *more: bytes, drawn: bytes = b"") -> bytes:
    """Return a PDF of one page with a word, a form, and annotations; `more` are the objects from the fifth on."""
    return pdf_of(
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[%b]>>>>" % annotations[:1_000],
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Annots[%b]>>" % annotations,
        stream(drawn + b"BT /F 9 Tf (word) Tj ET"),
        *more,
    )


WIDGET = b"<</Subtype/Widget/FT/Tx/T(a)/V(value)/Rect[9 9 50 20]/F 4%b>>"
FIELDS_WITHIN_EACH_OTHER = annotated_pdf(
    b"5 0 R 6 0 R", WIDGET % (b"/Kids[%b]" % (b"6 0 R " * 9)), b"<</Parent 5 0 R/Kids[5 0 R 6 0 R 5 0 R]>>"
)
ANNOTATED = {
    "very many fields": lambda: annotated_pdf(b"5 0 R " * 100_000, WIDGET % b""),
    "very many options": lambda: annotated_pdf(
        b"5 0 R " * 1_000, WIDGET.replace(b"Tx", b"Ch") % b"/Opt[%b]" % (b"(x)" * 9_000)
    ),
    "annotations that are not there": lambda: annotated_pdf(b"99999 0 R null 7 (x) " * 4_000),
    "very many lines": lambda: annotated_pdf(b"", drawn=b"0 0 m 50 0 l S 9 9 m 9 50 l S " * 50_000),
    "a line of very many parts": lambda: annotated_pdf(b"", drawn=b"0 0 m " + b"0 9 l 9 9 l " * 100_000 + b"S "),
    "a grid without end": lambda: annotated_pdf(
        b"", drawn=b"".join(b"%d 0 m %d 9999 l S 0 %d m 9999 %d l S " % ((9 * at,) * 4) for at in range(499))
    ),
}
"""PDFs whose annotations or drawings are too many, or lead nowhere."""
