"""Spreadsheets, delimited files and OpenDocument texts as people see them: numbers as shown, headers, merged labels,
and what is hidden left out by name."""

from io import BytesIO

import pytest
import xlsxwriter

from retrieval.parsing.delimited import parse_csv, parse_tsv
from retrieval.parsing.office.cell_formats import BUILT_IN, shown, shown_text
from retrieval.parsing.office.open_documents import parse_odp, parse_ods, parse_odt
from retrieval.parsing.office.workbooks import parse
from retrieval.parsing.table_text import sheet_blocks
from tests.support.documents.hostile import SHEET, changed
from tests.support.documents.samples import odf, xlsx_file

KRONER = '_-* #,##0.00 "kr"_-;-* #,##0.00 "kr"_-;_-* "-"?? "kr"_-;_-@_-'
# A number, its format, and what is shown.
SHOWN = """
0.475~0.0%~47.5%   501~00000~00501   2.675~0.00~2.68   5~#.##~5   7~@~7   5~;;;~   5~0 kg~5 kg   0~0;-0;"none"~none
1.1458333333333333~[h]:mm~27:30   -0.5~[h]:mm~-12:00   0.0423~[mm]:ss.0~60:54.7   0.123~mm:ss~57:07
12345~0.00E+00~1.23E+04   99.999~0.0E+0~1.0E+2   1.5~# ?/?~1 1/2   2.25~# ??/16~2 4/16   0~# ?/?~0
45292~m/d/yy~2024-01-01   61~[$-407]d. mmmm yyyy~1900-03-01   45292.5~dd.mm.yy hh:mm~2024-01-01 12:00   -1~yyyy~-1
0.5625~h:mm AM/PM "sharp"~13:30   1234567.891~#,##0.00 [$€-407]~1,234,567.89 €   12~0,000~0,012   1234567~0.0,,"M"~1.2M
-1234.5~$#,##0.00_);[Red]\\($#,##0.00\\)~($1,234.50)   5551234567~(000) 000-0000~(555) 123-4567   x~0.0~x
12.3~0.0\\ "°C";;"none"~12.3 °C   150~[>=100]"many";0~150   1E+300~General~1E+300   1E-5~General~0.00001
0.30000000000000004~General~0.3
"""


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        *(each.split("~") for line in SHOWN.strip().splitlines() for each in line.split("   ")),
        ("-1234.5", KRONER, "-1,234.50 kr"),
        ("0", KRONER, "- kr"),
        ("12345.6", BUILT_IN[48], "1.2E+4"),
        ("12", "0" * 1_000_000, "12"),
        ("9" * 5000, "#,##0", "9" * 5000),
    ],
)
def test_a_number_is_shown_as_its_format_shows_it(number, code, text):
    assert shown(number, code) == text


def test_words_of_a_format_stand_around_texts_and_days_may_count_from_1904():
    assert shown_text("17", '0;-0;0;"No. "@') == "No. 17"
    assert shown_text("17", "@") == shown_text("17", "0;-0;0") == "17"
    assert shown("0", "yyyy-mm-dd", since_1904=True) == "1904-01-01"


ROWS = {
    "Q1": [[], [], ["Region", "Share", "Until"], ["North"], [], [], ["As of today"]],
    "Hidden": [["City", "Note", "People"], ["Bonn", "-", 3], ["Wien", "-", 4], ["Ulm", "-", 5]],
    "Kinds": [["Kind", "Value"], ["rich", True], [], ["sum", '=CONCATENATE("4","2")']],
    "Groups": [[], ["", "Q1", "Q2", "Q1", "Q2"], ["North", 1, 2, 3, 4]],
    "Secret": [["GONE"]],
    "Deep": [["GONE"]],
}


def report():
    """Return a workbook with all that people do to rows, columns and numbers."""
    file = BytesIO()
    with xlsxwriter.Workbook(file, {"in_memory": True}) as workbook:
        sheets = {name: workbook.add_worksheet(name) for name in ROWS}
        for name, rows in ROWS.items():
            for row, cells in enumerate(rows):
                sheets[name].write_row(row, 0, cells)
        for row in (3, 4):
            sheets["Q1"].write(row, 1, 0.475, workbook.add_format({"num_format": "0.0%"}))
            sheets["Q1"].write(row, 2, 1, workbook.add_format({"num_format": "dd.mm.yy"}))
        sheets["Q1"].merge_range("A1:C1", "Sales of the year")
        sheets["Q1"].merge_range("A4:A5", "North")
        sheets["Q1"].insert_textbox("F2", "Words in a box")
        sheets["Q1"].write_comment("A7", "Ask Ada")
        sheets["Hidden"].set_row(2, options={"hidden": True})
        sheets["Hidden"].set_row(3, options={"hidden": True, "level": 1})
        sheets["Hidden"].set_column("B:B", options={"hidden": True})
        sheets["Kinds"].write_rich_string("A3", "so ", workbook.add_format({"bold": True}), "bold")
        sheets["Kinds"].write_formula("B3", "=1/0", None, "#DIV/0!")
        for place, label in {"A1:A2": "Name", "B1:C1": "2023", "D1:E1": "2024"}.items():
            sheets["Groups"].merge_range(place, label)
        sheets["Secret"].hide()
        sheets["Deep"].very_hidden()
    return file.getvalue()


def test_a_workbook_is_read_as_it_is_shown_and_what_is_hidden_is_named():
    parsed = parse(report())
    assert parsed.text == (
        "# Q1\n\nSales of the year\n\n| Region | Share | Until |\n| --- | --- | --- |\n"
        "| North | 47.5% | 1900-01-01 |\n| North | 47.5% | 1900-01-01 |\n\nAs of today\n\nWords in a box\n\n"
        "# Hidden\n\n| City | People |\n| --- | --- |\n| Bonn | 3 |\n\n"
        "# Kinds\n\n| Kind | Value |\n| --- | --- |\n| rich | TRUE |\n| so bold | #DIV/0! |\n"
        '| sum | =CONCATENATE("4","2") |\n\n'
        "# Groups\n\nName 2023 2024\n\n| Name | 2023 Q1 | 2023 Q2 | 2024 Q1 | 2024 Q2 |\n"
        "| --- | --- | --- | --- | --- |\n| North | 1 | 2 | 3 | 4 |\n"
    )
    assert parsed.warnings == [
        "Hidden sheets are left out: Secret, Deep",
        "Hidden rows and columns are left out: Hidden (2 rows and 1 column)",
        "Formulas without a stored value: 1, first in Kinds!B4",
        "Comments are left out: 1",
    ]
    assert parsed.title is None


@pytest.mark.parametrize(
    ("cells", "rows"),
    [
        (
            '<c t="inlineStr"><is><r><t>漢</t></r><rPh><t>かん</t></rPh></is></c><c t="str"><v>a_x000D_b</v></c>',
            "漢 | a b",
        ),
        ('<c r="B1"><f>A1</f></c><c r="A1"><f>X</f><v/></c>', "=X | =A1"),
        ('<c t="str"><f>X</f><v/></c><c><v>5</v></c><c t="d"><v>2024-01-02T00:00:00</v></c>', "5 | 2024-01-02"),
        ('<c r="A1" t="s"><v>99</v></c><c r="B1" t="e"><v>#N/A</v></c><c r="C1" t="b"><v>0</v></c>', "#N/A | FALSE"),
        ('<c r="XFD1"><v>1</v></c><c s="7777"><v>2</v></c><c r="ZZZZ1"><v>3</v></c>', "1 | 2 | 3"),
    ],
)
def test_cells_of_any_producer_are_read(cells, rows):
    content = changed(xlsx_file(), {"xl/worksheets/sheet1.xml": SHEET.format(f"<row>{cells}</row>")})
    assert parse(content).text.splitlines()[2] == f"| {rows} |"


def test_labels_that_are_merged_over_all_rows_and_columns_are_bounded():
    merges = '<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>' * 100
    corners = '<row><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    sheet = SHEET.format(corners).replace("</worksheet>", f"{merges}</worksheet>")
    assert "| 1 |  |\n| --- | --- |\n|  | 2 |" in parse(changed(xlsx_file(), {"xl/worksheets/sheet1.xml": sheet})).text


TABLE = [["Name", "Age", "City"], ["Ann", "31", "Bonn"], ["Bob", "", "Ulm"]]
PIPES = "| Name | Age | City |\n| --- | --- | --- |\n| Ann | 31 | Bonn |\n| Bob |  | Ulm |"


@pytest.mark.parametrize(
    ("rows", "blocks"),
    [
        ([["Title"], [], *TABLE], ["Title", PIPES]),
        ([["Title", "", ""], ["Date:", "2024"], *TABLE, ["A note"]], ["Title", "Date: 2024", PIPES, "A note"]),
        ([*TABLE, [], [], ["Key", "Value"], ["a", "b"]], [PIPES, "| Key | Value |\n| --- | --- |\n| a | b |"]),
        ([*TABLE, [], ["Cid", "7", "Rom"], ["Dan", "8", "Wien"]], [f"{PIPES}\n| Cid | 7 | Rom |\n| Dan | 8 | Wien |"]),
        ([*TABLE, [], ["Dan", "", "Ulm"], ["Eve", "", "Rom"]], [f"{PIPES}\n| Dan |  | Ulm |\n| Eve |  | Rom |"]),
        ([*TABLE, ["", "31"]], [f"{PIPES}\n|  | 31 |  |"]),
        ([*TABLE, [], ["Sum", "31"]], [f"{PIPES}\n| Sum | 31 |  |"]),
        ([["", *row] for row in TABLE], [PIPES]),
        ([["", "Q1"], ["North", "1"], ["South", "2"]], ["|  | Q1 |\n| --- | --- |\n| North | 1 |\n| South | 2 |"]),
        ([["Apples"], [], ["Pears"]], ["| Apples |\n| --- |\n| Pears |"]),
        ([["Name", "Ann"], [], ["Town", "Bonn"]], ["| Name | Ann |\n| --- | --- |\n| Town | Bonn |"]),
        ([["1", "2"], ["3", "4"]], ["| 1 | 2 |\n| --- | --- |\n| 3 | 4 |"]),
        ([["# Title"], *TABLE], ["\\# Title", PIPES]),
        ([[], ["", ""]], []),
    ],
)
def test_the_header_is_the_first_row_as_wide_as_the_table_and_other_lines_are_text(rows, blocks):
    assert sheet_blocks(rows) == blocks


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("Artikel;Preis, netto\nSchraube M8;1,50\n", "Artikel | Preis, netto;Schraube M8 | 1,50"),
        ("Schraube;1,50\nMutter;0,75\n", "Schraube | 1,50;Mutter | 0,75"),
        ("1,5;2,5\n3,5;4,5\n", "1,5 | 2,5;3,5 | 4,5"),
        ("1,2,3\n4,5,6\n", "1 | 2 | 3;4 | 5 | 6"),
        ("2024-01-01,12,a|b\n2024-01-02,12,c|d\n", "2024-01-01 | 12 | a\\|b;2024-01-02 | 12 | c\\|d"),
        ("sep=;\r\nName;City\r\nAnna;Bonn\r\n", "Name | City;Anna | Bonn"),
        ("id,note\n1,a\u2028b\x85c\x0bd\x0ce\n", "id | note;1 | a b c d e"),
        ('\ufeffa, b\n1, "x, y"\n', "a | b;1 | x, y"),
        ('a\tb\n1,5\t"2\n3"\n', "a | b;1,5 | 2 3"),
        ("Name\rAnna\rBob", "Name;Anna;Bob"),
        ("Name;Age;\n\nA;3;\n", "Name | Age;A | 3"),
        ("id,note\n1,hello, world\n2,ok\n", "id | note | ;1 | hello | world;2 | ok | "),
    ],
)
def test_csv_is_divided_by_what_divides_it(content, lines):
    header, _, *rows = parse_csv(content.encode()).text.splitlines()
    assert [header, *rows] == [f"| {line} |" for line in lines.split(";")]


def test_a_title_above_csv_is_text_tsv_has_its_own_delimiter_and_open_quotes_are_signs():
    text = parse_csv(b"Konto: 12\n\nDatum;Text;Betrag\n01.05.;Miete, warm;-500,00\n").text
    assert text.startswith("Konto: 12\n\n| Datum | Text | Betrag |\n")
    assert parse_tsv(b"a,b\tc\n1,2\t3\n").text.startswith("| a,b | c |\n")
    parsed = parse_csv(b'Name,Size\nPipe,"3 inch\nHose,2\n')
    assert '| Pipe | "3 inch |\n| Hose | 2 |' in parsed.text
    assert parsed.warnings == ["Quotation marks are read as they stand: one of them is never closed"]


def test_sheets_of_opendocument_are_read_as_they_are_shown():
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>".format
    row = "<table:table-row{}>{}</table:table-row>".format
    gone, formula = cell("", "9"), "<table:table-cell table:formula='of:=1+1'/>"
    comment = "<office:annotation><text:p>Why?</text:p></office:annotation>"
    lines = [
        ("", cell("", "Region") + cell("", "Secret") + cell("", "Sum")),
        ("", cell(" table:number-rows-spanned='2'", "North") + gone + formula),
        ("", f"<table:covered-table-cell/>{gone}" + cell("", f"7{comment}")),
        (" table:visibility='filter'", cell("", "South") + gone),
    ]
    columns = "<table:table-column/><table:table-column table:visibility='collapse'/><table:table-column/>"
    rows = columns + "".join(row(*each) for each in lines)
    rows += f"<table:table-row-group table:display='false'>{row('', cell('', 'West') + gone)}</table:table-row-group>"
    styles = "<style:style style:name='off' style:family='table'><style:table-properties table:display='false'/></style:style>"
    sheets = f"<table:table table:name='S'>{rows}</table:table><table:table table:name='T' table:style-name='off'>{rows}</table:table>"
    parsed = parse_ods(odf("spreadsheet", f"<office:spreadsheet>{sheets}</office:spreadsheet>", styles))
    assert parsed.text == "# S\n\n| Region | Sum |\n| --- | --- |\n| North | =1+1 |\n| North | 7 |\n"
    assert parsed.warnings == [
        "Hidden sheets are left out: T",
        "Hidden rows and columns are left out: S (2 rows and 1 column)",
        "Formulas without a stored value: 1, first in S!C2",
        "Comments are left out: 2",
    ]


def test_texts_of_opendocument_have_numbers_boxes_ticks_and_lines_of_pages_and_nothing_hidden():
    styles = (
        "<style:style style:name='h' style:family='text'><style:text-properties text:display='none'/></style:style>"
        "<style:style style:name='k' style:family='text' style:parent-style-name='h'/>"
        "<style:style style:name='s' style:family='text'><style:text-properties style:text-position='super 58%'/></style:style>"
        "<text:outline-style><text:outline-level-style text:level='1' style:num-format='I'/>"
        "<text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/></text:outline-style>"
        "<text:list-style style:name='n'><text:list-level-style-number text:level='1' style:num-format='1' style:num-suffix='.'/>"
        "<text:list-level-style-number text:level='2' style:num-format='a' style:num-prefix='(' style:num-suffix=')'/></text:list-style>"
    )
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>".format
    body = (
        "<office:forms><form:checkbox form:id='c' form:label='Agreed' form:current-state='checked'/></office:forms>"
        "<text:h text:outline-level='1'>Duties</text:h><text:h text:outline-level='2'>Details</text:h>"
        "<text:p>Shown<text:span text:style-name='k'>GONE</text:span><draw:frame><draw:text-box><text:p>Boxed</text:p>"
        "</draw:text-box></draw:frame>, <draw:control draw:control='c'/></text:p>"
        "<text:section text:display='none'><text:p>GONE</text:p></text:section>"
        f"<text:list text:style-name='n'>{item('One', '<text:list>' + item('Sub', '') + '</text:list>')}</text:list>"
        f"<text:list>{item('Dot', '')}</text:list><text:list text:style-name='n' text:continue-numbering='true'>{item('Two', '')}</text:list>"
        "<text:p>10<text:span text:style-name='s'>6</text:span></text:p><text:p>So <draw:object><math xmlns='http://www.w3.org/1998/Math/MathML'><annotation>E = m c^2</annotation></math></draw:object> and <draw:object/>"
        "<text:ruby><text:ruby-base>漢</text:ruby-base><text:ruby-text>かん</text:ruby-text></text:ruby></text:p>"
        "<text:p text:style-name='Heading_20_2'>Ends</text:p>"
    )
    masters = (
        "<style:master-page><style:header><text:p>Handbook, page <text:page-number>1</text:page-number></text:p></style:header>"
        "<style:footer><text:p>Draft</text:p></style:footer><style:footer-left style:display='false'><text:p>GONE</text:p></style:footer-left></style:master-page>"
    )
    parsed = parse_odt(odf("text", f"<office:text>{body}</office:text>", styles, masters))
    assert parsed.text == (
        "Handbook,\n\n# I Duties\n\n## I.1 Details\n\nShown, [x] Agreed\n\nBoxed\n\n1. One\n    (a) Sub\n- Dot\n2. Two\n\n"
        "10^6\n\nSo E = m c^2 and 漢\n\n## Ends\n\nDraft\n"
    )
    assert parsed.warnings == [
        "Hidden passages are left out: 2",
        "Charts and other embedded objects are left out: 1",
    ]


def test_hidden_slides_are_left_out_and_notes_stand_below_their_slide():
    styles = (
        "<style:style style:name='off' style:family='drawing-page'>"
        "<style:drawing-page-properties presentation:visibility='hidden'/></style:style>"
    )
    box = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>".format
    notes = f"<presentation:notes>{box('', 'Say so')}</presentation:notes>"
    shown_page = box("", "Words") + box(" presentation:class='title'", "Title") + notes
    picture = "<draw:frame><draw:image/><svg:desc xmlns:svg='svg'>A map of the bay</svg:desc></draw:frame>"
    pages = f"<draw:page draw:style-name='off'>{box('', 'GONE')}</draw:page><draw:page>{shown_page}</draw:page>"
    pages += f"<draw:page>{picture}</draw:page>"
    parsed = parse_odp(odf("presentation", f"<office:presentation>{pages}</office:presentation>", styles))
    assert parsed.text == "# Title\n\nWords\n\n## Notes\n\nSay so\n\n# Slide 3\n\nA map of the bay\n"
    assert (parsed.marks, parsed.warnings) == (
        [(1, {"slide": 2}), (9, {"slide": 3})],
        ["Hidden slides are left out: 1"],
    )
