"""What is read of Word documents, piece by piece, and what of it is only named."""

import pytest

from retrieval.parsing.office import word_documents
from retrieval.parsing.parsed import UnreadableError, sensible_title
from tests.support.documents.samples import zipped

PREFIXES = ("w", "w14", "mc", "a", "c", "v", "o", "m", "r")  # which namespaces they stand for does not count
LEVEL = '<w:lvl w:ilvl="{}"><w:start w:val="1"/><w:numFmt w:val="{}"/><w:lvlText w:val="{}"/>{}</w:lvl>'
LISTS = {
    "1": LEVEL.format(0, "decimal", "%1.", ""),
    "2": LEVEL.format(0, "bullet", "·", ""),
    "3": LEVEL.format(0, "upperRoman", "Article %1", "")
    + LEVEL.format(1, "decimal", "%1.%2", '<w:pStyle w:val="Clause"/>')
    + LEVEL.format(2, "lowerLetter", "(%3)", ""),
    "4": LEVEL.format(0, "chicago", "%1)", ""),
    "5": LEVEL.format(0, "none", "", ""),
    "9": '<w:numStyleLink w:val="Linked"/>',
}
NUMBERING = (
    "".join(f'<w:abstractNum w:abstractNumId="{name}">{levels}</w:abstractNum>' for name, levels in LISTS.items())
    + "".join(f'<w:num w:numId="{name}"><w:abstractNumId w:val="{name}"/></w:num>' for name in LISTS)
    + '<w:num w:numId="11"><w:abstractNumId w:val="1"/>'  # the first list, which begins anew
    + '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num>'
)


def docx(body, **parts):
    """Return a document of this body; `parts` are the XML of others by the last word of their relation."""
    roots = {"document": f"<w:body>{body}</w:body>", **parts}
    names = " ".join(f'xmlns:{prefix}="{prefix}"' for prefix in PREFIXES)
    members = {f"word/{name}.xml": f"<w:{name} {names}>{text}</w:{name}>" for name, text in roots.items()}
    links = (f'<R Id="{name}" Type="{name.rstrip("123")}" Target="{name}.xml"/>' for name in parts)
    return zipped({**members, "word/_rels/document.xml.rels": f"<Rs>{''.join(links)}</Rs>"})


def p(text, properties=""):
    words = text if text.startswith("<") else f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'
    return f"<w:p><w:pPr>{properties}</w:pPr>{words}</w:p>"


def item(text, number, level=0):
    return p(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def style(name, inner, based_on=""):
    return (
        f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/>'
        f'<w:basedOn w:val="{based_on}"/>{inner}</w:style>'
    )


STYLES = (
    style("heading 1", '<w:pPr><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr>', "Base")
    + style("Chapter", "", "heading 1")
    + style("Clause", '<w:pPr><w:outlineLvl w:val="9"/><w:numPr><w:numId w:val="3"/></w:numPr></w:pPr>')
    + style("Linked", '<w:pPr><w:numPr><w:numId w:val="4"/></w:numPr></w:pPr>')
    + style("Secret", "<w:rPr><w:vanish/></w:rPr>")
    + style("Round", "", "About")
    + style("About", "", "Round")
    + style("Title", "")
    + style("toc 1", "")
)


def of_style(name, text):
    return p(text, f'<w:pStyle w:val="{name}"/>')


def read(body, **parts):
    return word_documents.parse(docx(body, styles=STYLES, numbering=NUMBERING, **parts))


def box(text, around="<w:drawing><a:txbx>{}</a:txbx></w:drawing>"):
    return f"<w:r>{around.format(f'<w:txbxContent>{text}</w:txbxContent>')}</w:r>"


def cell(text, properties=""):
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{text}</w:tc>"


def rows(*rows):
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>"


def field(instruction, shown="", form=""):
    begin = f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{form}</w:ffData></w:fldChar></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>'
    return f'{begin}<w:r><w:fldChar w:fldCharType="separate"/></w:r>{run(shown)}<w:r><w:fldChar w:fldCharType="end"/></w:r>'


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def control(properties, shown):
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{run(shown)}</w:sdtContent></w:sdt>"


def m(text):
    return f"<m:r><m:t>{text}</m:t></m:r>"


FRACTION = f"<m:f><m:num>{m('a+b')}</m:num><m:den>{m('2')}</m:den></m:f>"
CHOICE = f"<mc:AlternateContent><mc:Choice>{box(p('once'))}</mc:Choice><mc:Fallback>{box(p('once'))}</mc:Fallback></mc:AlternateContent>"
ANSWERS = '<w:ddList><w:result w:val="1"/><w:listEntry w:val="No"/><w:listEntry w:val="Yes"/></w:ddList>'
RAISED = '<w:vertAlign w:val="superscript"/>'
MERGED, GOES_ON = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        # automatic numbers
        (item("a", 1) + item("b", 1) + item("dot", 2) + item("c", 1), "1. a\n2. b\n- dot\n3. c"),
        (item("a", 1) + item("g", 11) + item("h", 11) + item("i", 1), "1. a\n7. g\n8. h\n9. i"),
        (item("a", 4) + item("b", 9) + item("plain", 5) + item("no", 0), "1) a\n2) b\n\nplain\n\nno"),
        (
            of_style("Chapter", "A") + of_style("Clause", "x") + item("y", 3, 2) + of_style("Clause", "z")
            + of_style("heading 1", "B") + of_style("Clause", "w") + item("v", 3, 2),
            "# Article I A\n\nI.1 x\n    (a) y\nI.2 z\n\n# Article II B\n\nII.1 w\n    (a) v",
        ),
        (of_style("Round", "Round and round"), "Round and round"),
        (f"<w:p>{run('10')}{run('6', RAISED)}{run(' m')}{run('2', RAISED)}</w:p>", "10^6 m2"),
        # tables
        (
            rows(cell(p("Name")) + cell(p("Is")), cell(p("A"), MERGED) + cell(item("fast", 2) + item("safe", 2)),
                 cell(p(""), GOES_ON) + cell(p("x") + rows(cell(p("in")) + cell(p("ner"))))),
            "| Name | Is |\n| --- | --- |\n| A | fast safe |\n| A | x in ner |",
        ),
        (
            rows(cell(p("Wide"), '<w:gridSpan w:val="2"/>') + cell(p("1")), cell(p("a")) + cell(p("b")) + cell(p("2"))),
            "| Wide |  | 1 |\n| --- | --- | --- |\n| a | b | 2 |",
        ),
        (rows(cell(p("Frame") + rows(cell(p("a")) + cell(p("b"))))), "Frame\n\n| a | b |\n| --- | --- |"),
        (rows(cell(of_style("Base", "Left") + p("x")) + cell(p("Right"))), "Left\n\nx\n\nRight"),
        # text boxes and shapes
        (p(run("Beside") + CHOICE), "Beside\n\nonce"),
        (p(box(p("drawn")) + box(p("old"), "<w:pict><v:group><v:textbox>{}</v:textbox></v:group></w:pict>")), "drawn\n\nold"),
        (p("<w:r><w:pict><v:shape><v:textpath string='DRAFT'/></v:shape></w:pict></w:r>"), "DRAFT"),
        # ticks and other controls
        (p(control('<w14:checkbox><w14:checked w14:val="1"/></w14:checkbox>', "☒") + run(" yes")), "[x] yes"),
        (p(control('<w14:checkbox><w14:checked w14:val="0"/></w14:checkbox>', "☐") + run(" no")), "[ ] no"),
        (p(field("FORMCHECKBOX", "", "<w:checkBox><w:checked/></w:checkBox>") + run(" old")), "[x] old"),
        (p(field("FORMCHECKBOX", "", '<w:checkBox><w:default w:val="0"/></w:checkBox>')), "[ ]"),
        (p('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/><w:sym w:font="Wingdings" w:char="F0A8"/></w:r>'), "[x][ ]"),
        (p(run("\uf0fe", '<w:rFonts w:ascii="Wingdings"/>') + run("\uf061", '<w:rFonts w:ascii="Symbol"/>')), "[x]α"),
        (p(control("<w:dropDownList/>", "Chosen") + field("FORMDROPDOWN", "", ANSWERS)), "ChosenYes"),
        (p(control("<w:showingPlcHdr/>", "Kept") + run(" words")), "Kept words"),
        # equations
        (p(f"{run('Is ')}<m:oMath>{m('E=m')}<m:sSup><m:e>{m('c')}</m:e><m:sup>{m('2')}</m:sup></m:sSup></m:oMath>"), "Is E=mc^2"),
        (p(f"<m:oMath>{FRACTION}</m:oMath><m:oMathPara><m:oMath><m:rad><m:e>{FRACTION}</m:e></m:rad></m:oMath></m:oMathPara>"), "(a+b)/2\n√((a+b)/2)"),
        (p(f'<m:oMath><m:d><m:dPr><m:begChr m:val="["/></m:dPr><m:e>{m("x")}</m:e><m:e>{m("y")}</m:e></m:d></m:oMath>'), "[x|y)"),
        # revisions, fields, contents
        (p(f"<w:ins>{run('in')}</w:ins><w:del><w:r><w:delText>out</w:delText></w:r></w:del><w:moveFrom>{run('out')}</w:moveFrom>"), "in"),
        (p("one ", "<w:rPr><w:del/></w:rPr>") + p("line"), "one line"),
        (p(field(" HYPERLINK x ", "link") + f"<w:fldSimple w:instr='SEQ Figure'>{run(' 3')}</w:fldSimple>"), "link 3"),
        (p(run("Seen") + '<w:r><w:fldChar w:fldCharType="begin"/></w:r>') + p("after a broken field"), "Seen\n\nafter a broken field"),
        (of_style("toc 1", "Chapter 1 ... 7") + p("Text"), "Text"),
        (p(f"<w:ruby><w:rt>{run('kan')}</w:rt><w:rubyBase>{run('漢')}</w:rubyBase></w:ruby>"), "漢"),
        (of_style("Title", "# not markup") + p("# nor this"), "# # not markup\n\n\\# nor this"),
    ],
)  # fmt: skip
def test_what_a_document_shows_is_read_once_and_in_its_order(body, text):
    document = read(body)
    assert document.text == f"{text}\n"
    assert document.warnings == []


def test_headers_come_first_and_footers_last_each_once_if_pages_show_them_and_without_page_numbers():
    page = p(run("Secret\t") + run("Page ") + field("PAGE", "3") + run(" of ") + field("NUMPAGES", "7"))
    references = "".join(
        f'<w:{kind}Reference w:type="{place}" r:id="{kind}{n}"/>'
        for kind, place, n in (("header", "default", 1), ("header", "first", 2), ("header", "even", 3), ("footer", "default", 1))
    )  # fmt: skip
    first, other = (f"<w:sectPr>{references}{more}</w:sectPr>" for more in ("<w:titlePg/>", ""))
    parts = {"header1": p("Each page"), "header2": p(box(p("Ref 2026-0417"))), "header3": p("EVEN"), "footer1": page}
    body = p("Text", first) + p("<w:r><w:footnoteReference w:id='2'/></w:r>", other)
    document = read(body, **parts, footnotes=f"<w:footnote w:id='2'>{p('A note')}</w:footnote>")
    assert document.text == "Ref 2026-0417\n\nEach page\n\nText\n\n[A note]\n\nSecret\n"


def test_what_is_hidden_or_cannot_be_read_is_left_out_and_named():
    hidden, placeholder = "<w:vanish/>", style("Placeholder Text", "")
    body = (
        p(run("Seen ") + run("H1", hidden) + run("H1", hidden) + run("again") + run("H2", hidden))
        + of_style("Secret", "H3")
        + of_style("Secret", run("shown ", '<w:vanish w:val="0"/>') + run("web", '<w:vanish w:val="0"/><w:webHidden/>'))
        + p(control("<w:showingPlcHdr/>", "").replace("<w:rPr>", '<w:rPr><w:rStyle w:val="Placeholder Text"/>'))
        + p('<w:r><w:object><o:OLEObject ProgID="Excel.Sheet.12"/></w:object></w:r>')
        + p('<w:r><w:drawing><c:chart r:id="gone"/></w:drawing></w:r>')
    )
    document = word_documents.parse(docx(body, styles=STYLES + placeholder, comments="<w:comment/><w:comment/>"))
    assert document.text == "Seen again\n\nshown web\n"
    assert document.warnings == [
        "Hidden passages are left out: 3",
        "Comments are left out: 2",
        "Charts are left out: 1",
        "Embedded objects are left out: Excel.Sheet.12",
    ]


@pytest.mark.parametrize(
    ("body", "title"),
    [
        (p("Above") + of_style("Title", "The title"), "The title"),
        (p("First", '<w:outlineLvl w:val="0"/>') + p("Text"), "First"),
        (p("Above") + p("First", '<w:outlineLvl w:val="0"/>'), None),
        (of_style("Chapter", "A chapter"), None),
    ],
)
def test_a_title_is_what_is_styled_so_or_what_a_document_begins_with(body, title):
    assert read(body).title == title


@pytest.mark.parametrize(
    "written",
    [
        "Microsoft Word - memo.docx",
        "PowerPoint Presentation",
        "Document1",
        "Untitled",
        "[Title]",
        "memo_v2",
        "INV20260417",
    ],
)
def test_what_programs_write_as_a_title_is_none(written):
    assert sensible_title(written) is None
    assert sensible_title("Microsoft Word - A study of tides in 2026") == "A study of tides in 2026"


def test_depth_and_numbers_of_boxes_cost_nothing():
    many = read(
        p(box(p("x"))) * 2_000
        + "<w:tbl><w:tr><w:tc><w:p/></w:tc><w:tc>" * 400
        + p("deep")
        + "</w:tc></w:tr></w:tbl>" * 400
    )
    assert many.text.count("x") == 2_000
    assert "deep" in many.text
    with pytest.raises(UnreadableError, match="nested too deeply"):
        read("<w:tbl><w:tr><w:tc>" * 1_000 + "</w:tc></w:tr></w:tbl>" * 1_000)
