"""What lies on the pages of PDFs: fields, notes, tables by their lines, columns, divided words, scans, titles."""

import gzip
import re
import shutil
import subprocess
from collections import Counter
from itertools import pairwise

import pytest

from retrieval.parsing.epub_books import parse as parse_epub
from retrieval.parsing.pdf.pdf_pages import parse
from tests.support.documents.hostile import pdf_of, stream

LEFT = ["The committee reviewed the annual", "report and found that the boiler", "had been serviced on time and"]
RIGHT = ["Visitors must wear a helmet and", "register at the gate before they", "enter the plant. Photographs are"]
SCAN = "q 595 0 0 842 0 0 cm BI /W 2 /H 2 /BPC 8 /CS /G ID \x00\xff\xff\x00 EI Q"
WIDGET = "<</Type/Annot/Subtype/Widget/F 4/Rect[{}]{}>>"
ROWS = [("Item", "Use", "Price"), ("Bolt", "joins", "1.50"), ("Nut", "holds", "0.20")]


def drawn(*pages, more=(), keys="", catalog="", font="/Encoding/WinAnsiEncoding"):
    """Return a PDF with these streams as pages, which have `keys`; its font is /F, `more` are the objects from 4 on."""
    first = 4 + len(more)
    objects = [f"<</Type/Catalog/Pages 2 0 R{catalog}>>"]
    kids = " ".join(f"{first + 2 * at} 0 R" for at in range(len(pages)))
    objects += [
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>",
        f"<</Type/Font/Subtype/Type1/BaseFont/Helvetica{font}>>",
    ]
    written = [each if isinstance(each, bytes) else each.encode("latin-1") for each in (*objects, *more)]
    for at, page in enumerate(pages, start=first + 1):
        resources = f"/Resources<</Font<</F 3 0 R>>>>/Contents {first + 2 * (at - first) - 1} 0 R{keys}"
        written += [
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]{resources}>>".encode(),
            stream(page.encode("latin-1")),
        ]
    return pdf_of(*written)


def at(x, y, text, size=12):
    return f"BT /F {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n"


def lines(*texts, x=60, y=780, lead=16, size=12):
    return "".join(at(x, y - lead * number, text, size) for number, text in enumerate(texts))


def text_of(content):
    return parse(content).text


def test_fields_and_notes_are_read_where_they_lie_and_what_is_left_out_is_named():
    both = "/AP<</N<</Yes 4 0 R/Off 4 0 R>>>>"
    more = [
        stream(b"", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]"),
        WIDGET.format("120 776 170 792", "/FT/Tx/T(a)/V(Lindqvist)"),
        WIDGET.format("250 776 299 792", "/Parent 7 0 R"),
        "<</FT/Tx/T(b)/V(B12)/MaxLen 3/Ff 16777216/Kids[6 0 R]>>",
        WIDGET.format("60 760 70 770", f"/FT/Btn/T(c)/V/Yes/AS/Yes{both}"),
        WIDGET.format("60 744 70 754", f"/FT/Btn/Ff 49152/Parent 10 0 R/AS/Off{both}"),
        "<</FT/Btn/T(d)/Ff 49152/V/Other/Kids[9 0 R]>>",
        WIDGET.format("130 724 200 740", "/FT/Ch/T(e)/V[(Red)(Blue)]/Opt[(Red)(Green)(Blue)]/Ff 2097152"),
        WIDGET.format("60 600 200 660", "/FT/Tx/T(f)/V(first\\rsecond)/Ff 4096"),
        WIDGET.format("60 500 200 520", "/FT/Tx/T(code)/V(swordfish)/Ff 8192"),
        WIDGET.format("60 500 200 520", "/FT/Tx/T(ghost)/V(unseen)").replace("/F 4", "/F 2"),
        WIDGET.format("60 400 200 420", "/FT/Sig/T(s)/V<</Type/Sig>>"),
        "<</Type/Annot/Subtype/FreeText/Contents(APPROVED)/Rect[50 550 300 562]>>",
        "<</Type/Annot/Subtype/Text/Contents(Please check)/T(Kim)/Rect[50 300 60 310]>>",
        "<</Type/Annot/Subtype/Highlight/Rect[50 300 60 310]>>",
        "<</Type/Annot/Subtype/Popup/Contents(again)/Rect[50 300 60 310]>>",
        "<</Type/Annot/Subtype/FileAttachment/FS<</Type/Filespec/UF(data.csv)>>/Rect[0 0 9 9]>>",
    ]
    fields = "/AcroForm<</Fields[5 0 R 7 0 R 8 0 R 10 0 R 11 0 R 12 0 R 13 0 R 14 0 R 15 0 R]>>"
    shown = "/Annots[" + " ".join(f"{number} 0 R" for number in (5, 6, 8, 9, *range(11, 21))) + " 999 0 R]"
    page = at(60, 780, "Surname:") + at(200, 780, "Code:") + lines("    I agree", "    Or not", "Colours:", y=764)
    parsed = parse(drawn(page, more=more, keys=shown, catalog=fields))
    assert parsed.text == (
        "Surname: Lindqvist Code: B12\n[x] I agree\n[ ] Or not\nColours: Red, Blue\n\nfirst\nsecond\n\nAPPROVED\n\n"
        "Note (Kim): Please check\n"
    )
    assert parsed.warnings == [
        "Passwords are left out: code",
        "Hidden fields are left out: ghost",
        "Attachments are left out: data.csv",
        "Signatures are not read: 1",
    ]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("of the con-", "figuration."), "of the configuration."),
        (("a well-", "known field"), "a well-known field"),
        (("the field Build-", "Depends"), "the field Build-Depends"),
        (("number 12-", "34 of"), "number 12-34 of"),
        (("see https://a.org/x-", "y now"), "see https://a.org/x-y now"),
        (("pre-", "and postprocessing"), "pre- and postprocessing"),
        (("tech-ctte is", "who tech-", "ctte are"), "tech-ctte is who tech-ctte are"),
        (("It is CONFIGU-", "RATION of configuration"), "It is CONFIGURATION of configuration"),
        (("a half-docu-", "mented thing, documented"), "a half-documented thing, documented"),
        (("backward-", "compatible, backward and compatible"), "backward-compatible, backward and compatible"),
        (("this ends in con-",), "this ends in con-"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_is_the_typesetters_or_the_words_own(written, read):
    assert " ".join(text_of(drawn(lines(*written))).split()) == read
    if len(written) == 2:
        assert " ".join(text_of(drawn(*map(lines, written))).split()) == read  # over the end of a page


@pytest.mark.parametrize(
    ("glyphs", "read"),
    [
        (["م", "ش", "ك", "لا", "ت"], "مشكلات"),
        (["أ", "ي", "\u0636\u064b", "ا"], "أي\u0636\u064bا"),
        (["e", "ffi", "x"], "effix"),
    ],
)
def test_glyphs_of_several_letters_keep_their_order_in_what_is_read_from_the_right(glyphs, read):
    codes = {glyph: f"{65 + number:02X}" for number, glyph in enumerate(glyphs)}
    rows = "\n".join(f"<{code}> <{glyph.encode('utf-16-be').hex()}>" for glyph, code in codes.items())
    mapping = f"1 begincodespacerange <00> <FF> endcodespacerange\n{len(codes)} beginbfchar\n{rows}\nendbfchar\n"
    content = "".join(codes[glyph] for glyph in (glyphs if glyphs[0] == "e" else reversed(glyphs)))
    page = f"BT /F 14 Tf 1 0 0 1 100 700 Tm <{content}> Tj ET"
    assert text_of(drawn(page, more=[stream(mapping.encode())], font="/ToUnicode 4 0 R")).strip() == read


def test_pages_with_a_picture_and_no_text_are_scanned():
    assert parse(drawn(lines("Text"), SCAN, "", SCAN, "0 0 m 9 9 l S", lines("More"))).scanned == [2, 4]
    assert (parse(drawn(SCAN)).scanned, parse(drawn(SCAN)).title) == ([1], None)


def side_by_side(*sides, places=(60, 330, 600), step=0):
    rows = enumerate(zip(*sides, strict=True))
    return "".join(
        at(places[side], 700 - 14 * row - step * side, text) for row, texts in rows for side, text in enumerate(texts)
    )


def test_columns_of_text_that_are_drawn_row_by_row_are_read_one_after_the_other():
    wide = lines("A line above both of the columns that runs over the whole width of the page", y=730)
    for sides, step in (((LEFT, RIGHT), 0), ((LEFT, RIGHT), 4), ((LEFT, RIGHT, LEFT), 0)):
        read = text_of(drawn(wide + side_by_side(*sides, step=step)))
        assert read.split("page\n\n")[-1].split() == " ".join(" ".join(side) for side in sides).split()


@pytest.mark.parametrize(
    "sides",
    [
        (("Bolt", "Nut", "Washer", "Screw"), ("1.50 EUR", "0.20 EUR", "0.10 EUR", "0.30 EUR")),
        (("timeout", "retries", "limit", "size"), (*RIGHT, "not permitted in hall seven")),
        (("The Harbour of the Bay", "The Island of Seals"), ("Opens at noon every day", "Closes at dusk each day")),
        (["Ada Lovelace, of London, Eng"] * 4, ["Met Charles Babbage in June"] * 4),
    ],
)
def test_rows_of_a_table_without_lines_stay_rows(sides):
    rows = [" ".join(row) for row in zip(*sides, strict=True)]
    assert text_of(drawn(side_by_side(*sides))).split("\n")[: len(rows)] == rows


def grid(rows, *, top=700, style="strokes", places=(60, 160, 260, 360), without=()):
    """Return a table of rows of 20 points; `without` are the inner edges that are not drawn, as (x or y, start)."""
    foot = top - 20 * len(rows)
    level = [(x, y, x1, y) for y in range(foot, top + 1, 20) for x, x1 in pairwise(places)]
    upright = [(x, y, x, y + 20) for x in places for y in range(foot, top, 20)]
    edges = [edge for edge in (*level, *upright) if edge[:2] not in without]
    paint = {
        "strokes": lambda x, y, x1, y1: f"{x} {y} m {x1} {y1} l S\n",
        "path": lambda x, y, x1, y1: f"{x} {y} m {x1} {y1} l\n",
        "thin": lambda x, y, x1, y1: f"{x - 0.3} {y - 0.3} {x1 - x + 0.6} {y1 - y + 0.6} re f\n",
        "boxes": lambda x, y, x1, y1: f"{x} {y} {x1 - x} 20 re S\n" if y == y1 and y < top else "",
        "inner": lambda x, y, x1, y1: f"{x} {y} m {x1} {y1} l S\n" if places[0] < x1 and x < places[-1] else "",
    }[style]
    words = [at(places[c] + 4, top - 14 - 20 * r, text, 10) for r, row in enumerate(rows) for c, text in enumerate(row)]
    return "".join(paint(*edge) for edge in edges) + ("S\n" if style == "path" else "") + "".join(words)


def piped(rows):
    head, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


@pytest.mark.parametrize("style", ["strokes", "path", "thin", "boxes", "inner"])
def test_what_lines_divide_is_a_table(style):
    read = text_of(drawn(at(60, 740, "Before it", 20) + grid(ROWS, style=style) + at(60, 600, "After it", 10)))
    assert read == f"# Before it\n\n{piped(ROWS)}\n\nAfter it\n"


def test_cells_that_are_merged_have_their_label_in_each_row_and_lines_of_a_cell_are_one():
    rows = [("Item", "Size of", "Price"), ("Nut", "small", "0.20"), ("", "large", "0.30"), ("Sum", "", "0.50")]
    page = grid(rows, without={(60, 660), (160, 620)}) + at(164, 686 - 7, "bolts", 7)
    assert text_of(drawn(page)).strip() == piped(
        [("Item", "Size of bolts", "Price"), ("Nut", "small", "0.20"), ("Nut", "large", "0.30"), ("Sum", "", "0.50")]
    )


@pytest.mark.parametrize(
    "page",
    [
        "50 600 300 150 re S" + lines("A frame of", "one cell", y=700),
        "50 695 m 200 695 l S 50 675 m 200 675 l S" + lines("Lines below", "words", y=700, lead=20),
        grid([("", "", "")] * 3) + lines("The chart of a year", "has a grid", y=600),
        "40 40 500 780 re S 40 80 m 540 80 l S 300 40 m 300 80 l S"
        + lines(*LEFT * 9)
        + at(60, 60, "No. 1")
        + at(310, 60, "A"),
        "".join(f"{60 + 40 * bar} 500 20 {50 + 20 * bar} re f\n" for bar in range(6))
        + lines("Bars of", "a chart", y=480),
    ],
)
def test_frames_underlines_charts_and_pages_in_a_frame_are_no_tables(page):
    assert "|" not in text_of(drawn(page))


def test_a_table_that_goes_on_on_the_next_page_has_its_header_there():
    more, own = [("Pin", "fixes", "0.05"), ("Cap", "shuts", "0.15")], [("Name", "Town", "Age"), ("Ann", "Rome", "31")]
    header = piped(ROWS).split("\n")[:2]
    for second in (more, [ROWS[0], *more]):
        read = parse(drawn(grid(ROWS), grid(second, top=800)))
        assert read.text.strip() == piped(ROWS) + "\n\n" + piped([ROWS[0], *more])
        assert read.text.split("\n")[read.marks[1][0] - 1 :][:2] == header
    moved = text_of(drawn(grid(ROWS), grid(own, places=(60, 200, 260, 360))))
    assert moved.strip() == piped(ROWS) + "\n\n" + piped(own)


@pytest.mark.parametrize(
    ("page", "title"),
    [
        (lines("Rules of the Harbour", y=800, size=20) + lines(*LEFT), "Rules of the Harbour"),
        (
            at(60, 820, "Ltd.", 9) + lines("Rules of", "the Bay", y=800, size=20) + lines(*LEFT, y=740),
            "Rules of the Bay",
        ),
        (lines(*LEFT * 5) + lines("Vacation", y=400, size=20), None),
        (grid(ROWS), None),
        (lines("12/2026", y=800, size=20) + lines(*LEFT), None),
    ],
)
def test_the_title_is_the_largest_line_at_the_beginning_or_none(page, title):
    assert parse(drawn(page, lines("Vacation", size=24))).title == title


@pytest.mark.parametrize(("cells", "text"), [(("1.2", "Costs"), "# 1.2 Costs"), (("Item", "Plan"), "Item Plan")])
def test_bold_words_in_columns_are_no_heading_but_behind_a_number(cells, text):
    page = at(60, 780, cells[0]) + at(160, 780, cells[1]) + lines(*LEFT, y=700)
    bold = drawn(page).replace(b"/Helvetica", b"/Helvetica-Bold")
    assert text_of(bold).startswith(text + "\n")


def test_short_parts_of_a_page_have_headings():
    parts = "".join(at(60, 740 - y, "1. Part", 14) + at(60, 720 - y, " ".join(LEFT), 10) for y in (0, 50, 100))
    read = text_of(drawn(at(60, 800, "Report", 20) + parts))
    assert re.findall("^#+ .*", read, re.M) == ["# Report", *["## 1. Part"] * 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "file", "headings"),
    [("debian-policy", "policy", 306), ("developers-reference", "developers-reference", 268)],
)
def test_a_manual_of_debian_is_read_from_its_pdf_as_from_its_epub(package, file, headings, tmp_path):
    """GIVEN the same manual as PDF and EPUB THEN they have the same words, nearly all headings, and whole names."""
    if (
        not shutil.which("apt-get")
        or subprocess.run(["apt-get", "download", package], cwd=tmp_path, check=False).returncode
    ):
        pytest.skip("apt has no manuals of Debian here")
    subprocess.run(["dpkg-deb", "-x", *tmp_path.glob("*.deb"), tmp_path], check=True)
    content = next(tmp_path.rglob(f"{file}.pdf*")).read_bytes()
    pdf = text_of(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    epub = parse_epub(next(tmp_path.rglob(f"{file}.epub")).read_bytes()).text
    shown, meant = (Counter(re.findall(r"\w+", text.casefold())) for text in (pdf, epub))
    assert (shown & meant).total() >= 0.98 * max(shown.total(), meant.total())
    names, known = (set(re.findall(r"\w+(?:[-.'/+]\w+)*", text)) for text in (pdf, epub))
    broken = (names - known) & {name.replace("-", "") for name in known if "-" in name}
    assert len(broken) <= 3, broken
    found, wanted = (
        Counter(re.sub(r"^#+ ([\dA-Z](\.?\d+)*\.? )?|\W", "", line) for line in re.findall(r"^#+ .*", text, re.M))
        for text in (pdf, epub)
    )
    assert (found & wanted).total() >= headings, wanted - found
