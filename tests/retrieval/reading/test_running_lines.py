"""Running headers, footers and page numbers of PDFs go; no line of the text ever does."""

import pytest
from fpdf import FPDF

from retrieval.parsing.pdf.page_lines import Line, Page
from retrieval.parsing.pdf.pdf_layout import markdown_of
from retrieval.parsing.pdf.pdf_pages import parse

TOP, FOOT, LEADING, GAP = 780.0, 40.0, 12.0, 30.0


def document(count, body, *, top=lambda number: [], foot=lambda number: [], gap=GAP):
    """Return the text of `count` pages whose lines are those that the functions return for the page's position."""
    pages = []
    for number in range(1, count + 1):
        y, lines = TOP, []
        for text in top(number):
            lines.append(Line(text, 10.0, False, y))
            y -= LEADING
        y -= gap - LEADING if lines else 0.0
        for text in body(number):
            lines.append(Line(text, 10.0, False, y))
            y -= LEADING
        y -= gap - LEADING
        for text in foot(number):
            lines.append(Line(text, 10.0, False, y))
            y -= LEADING
        pages.append(Page(number, lines))
    return markdown_of(pages, [])[0]


def prose(number):
    return [f"The {name} line tells what happened on day {number * 37 % 11}." for name in ("first", "second", "third")]


@pytest.mark.parametrize(
    "running",
    [
        lambda number: ["Annual report of the harbour"],
        lambda number: ["Annual report of the harbour", "Confidential, 2024"],
        lambda number: [f"{number}"],
        lambda number: [f"- {number} -"],
        lambda number: [f"Page {number} of 12"],
        lambda number: [f"Seite {number}"],
        lambda number: [f"{number + 16} The harbour" if number % 2 else f"{CHAPTERS[number // 4]} {number + 16}"],
        lambda number: [f"{number + 1187}"],
    ],
)
@pytest.mark.parametrize("edge", ["top", "foot"])
def test_running_lines_go(running, edge):
    text = document(12, prose, **{edge: running})
    assert text.split() == document(12, prose).split()


CHAPTERS = ["Ships", "Cranes", "Locks", "Dues"]


@pytest.mark.parametrize("running", [lambda number: [], lambda number: [f"{number}"]])
def test_rows_that_differ_in_numbers_alone_stay(running):
    def rows(page):
        return [f"{2_000_000 + 7_919 * row} {31 * row} {1.25 * row} EUR" for row in range(page * 30, page * 30 + 30)]

    text = document(6, rows, foot=running)
    assert [row for page in range(1, 7) for row in rows(page) if row not in text] == []


def test_no_line_of_the_text_goes():
    text = document(5, prose, top=lambda number: [f"Invoice {20_240 + number}"])
    assert all(f"Invoice {20_240 + page}" in text for page in range(1, 6))
    text = document(8, lambda page: [f"Certificate {page}", "Awarded for swimming"], gap=LEADING)
    assert all(f"Certificate {page}" in text for page in range(1, 9))
    assert "Awarded for swimming" in text
    text = document(6, lambda page: ["Account Quantity Amount", *prose(page)])
    assert text.count("Account Quantity Amount") == 1
    text = document(20, prose, top=lambda number: [f"Section {number} begins"])
    assert all(f"Section {page} begins" in text for page in range(1, 21))

    def invoice(page):
        return [f"Invoice number {2_000 + 17 * page}", "Total of what was delivered:", f"To pay {page * 1313} EUR"]

    text = document(5, invoice, foot=lambda number: [f"Account {number * 31}"])
    for page in range(1, 6):
        assert all(line in text for line in [*invoice(page), f"Account {page * 31}"])


def test_a_ledger_loses_no_row_and_its_page_numbers_go():
    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    pdf.set_auto_page_break(False)
    rows = [f"{2_000_000 + 7_919 * row} {31 * row} {1.25 * row:.2f} EUR" for row in range(180)]
    for page in range(6):
        pdf.add_page()
        for row in rows[page * 30 : page * 30 + 30]:
            pdf.cell(0, 8, row, new_x="LMARGIN", new_y="NEXT")
        pdf.set_y(-15)
        pdf.cell(0, 8, f"Page {page + 1} of 6", align="C")
    text = parse(bytes(pdf.output())).text
    assert [row for row in rows if row not in text] == []
    assert "Page" not in text
