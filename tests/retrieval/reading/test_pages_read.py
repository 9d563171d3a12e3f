"""What becomes of web pages, chapters of books and displays of notebooks: tables, forms, folded texts, encodings."""

import json

import pytest

from retrieval.parsing.declared_encodings import decoded_as
from retrieval.parsing.epub_books import parse as parse_book
from retrieval.parsing.html_pages import parse
from retrieval.parsing.notebooks import parse as parse_notebook
from tests.support.documents.samples import zipped

LONG = "Words that are read by people. " * 8


@pytest.mark.parametrize(
    ("page", "text"),
    [
        # Rows stay rows, whatever a cell holds.
        ("<tr><th>a<th>b<tr><td>mode<td>One of:<ul><li>fast<li>safe</ul>", "| a | b |\n| --- | --- |\n| mode | One of: fast; safe |"),
        ("<tr><td>a<td>b<tr><td><h3>c</h3><td><pre>x\ny</pre><blockquote>z</blockquote>", "| a | b |\n| --- | --- |\n| c | x y z |"),
        ("<tr><th>a<th>b<tr><td>c<td><table><tr><td>1<td>2<tr><td>3</table>", "| a | b |\n| --- | --- |\n| c | 1 2; 3 |"),
        ("<tr><td colspan=2>Title<tr><td rowspan=2>a<td>b<tr><td>c", "Title\n\n| a | b |\n| --- | --- |\n| a | c |"),
        ("<tr><td><table><tr><td>a<td>b<tr><td>c<td>d</table>", "| a | b |\n| --- | --- |\n| c | d |"),
        # Parts of a page that a table places are no rows.
        ("<tr><td>Top<tr><td><ul><li>Menu</ul><td><h1>News</h1><p>More", "Top\n\n- Menu\n\n# News\n\nMore"),
        ("<tr><td>a<td>b<tr><td>c<td>d</table><table role=presentation><tr><td>e<td>f", "| a | b |\n| --- | --- |\n| c | d |\n\ne\n\nf"),
        (f"<tr><td><h2>A</h2>{LONG}<td><h2>B</h2>{LONG}" * 2, "\n\n".join(f"## {each}\n\n{LONG.strip()}" for each in "ABAB")),
        ("<tr><td><table><tr><td>a</table><td><table><tr><td>b</table>" * 2, "a\n\nb\n\na\n\nb"),
        (f"<tr><td>menu<td>{LONG}", f"menu\n\n{LONG.strip()}"),
    ],
)  # fmt: skip
def test_a_table_is_one_unless_it_only_places_parts_of_a_page(page, text):
    assert parse(f"<table>{page}</table>".encode()).text.strip() == text


@pytest.mark.parametrize(
    ("page", "text", "hidden"),
    [
        ("<input type=checkbox checked> Yes <label><input type=radio>No</label> <input value=Bo>", "[x] Yes [ ] No Bo", 0),
        ("<div><input type=checkbox id=menu><div>x</div><input type=submit value=go></div>", "x", 0),
        ("<div class=navheader>Chapter 1 of a book <a href=b>Next</a></div><p>x", "x", 0),
        ("<select><option>a<option selected>b</select><textarea>c</textarea>", "b c", 0),
        ("10<sup>6</sup> m<sup>2</sup>, <b>10</b><sup>-<i>3</i></sup>", "10^6 m2, 10^-3", 0),
        ("as <math alttext='E=mc^2'><mi>E</mi></math>, <math><mi>a</mi><annotation encoding=x-tex>a</annotation></math>", "as E=mc^2, a", 0),
        ("<span style='display: none'><math><mi>a</mi><mo>=</mo><mi>b</mi></math></span>", "a=b", 0),
        ("<div role=tabpanel>npm</div><div role=tabpanel hidden>yarn</div>", "npm\n\nyarn", 0),
        ("<h3>Q</h3><div style='display:none'>A</div><p hidden=until-found>B", "### Q\n\nA\n\nB", 0),
        ("<button aria-controls=x aria-expanded=false>?</button><div id=x hidden>A</div>", "A", 0),
        (f"a<div hidden>{LONG}</div><p aria-hidden=true>icon</p><div class='modal panel' hidden>{LONG}</div>", "a", 2),
        (f"a<div class=panel hidden><a href=/>{LONG}</a></div><div id=cookie-panel hidden>{LONG}</div>", "a", 0),
    ],
)  # fmt: skip
def test_forms_formulas_and_what_a_click_shows_are_read(page, text, hidden):
    document = parse(f"<p>{page}".encode())
    assert document.text.strip() == text
    assert document.warnings == ([f"Hidden passages are left out: {hidden}"] if hidden else [])


def test_a_title_is_the_pages_own_or_none():
    pages = ("<title>a</title><h1>b", "<p>x<h1>b", "<p>x<h2>c", "<p>x<h1>b</h1>y<h1>c")
    assert [parse(page.encode()).title for page in pages] == ["a", "b", None, None]


@pytest.mark.parametrize(("author", "metadata"), [("Ada", {"author": "Ada"}), ("python-docx", {}), ("(anonymous)", {})])
def test_an_author_is_no_program(author, metadata):
    assert parse(f"<meta name=author content='{author}'>x".encode()).metadata == metadata


@pytest.mark.parametrize(
    ("label", "content", "text"),
    [
        ("gb2312", "朱镕基 囍事 ㎡".encode("gbk"), "朱镕基 囍事 ㎡"),
        ("shift_jis", "①髙橋".encode("cp932"), "①髙橋"),
        ("euc-jp", b"\xad\xa1\xfc\xe2", "①髙"),
        ("iso-2022-jp", b"\x1b$B-!-j\x1b(B \x1b(I1", "①㈱ ｱ"),
        ("ks_c_5601-1987", "똠".encode("cp949"), "똠"),
        ("tis-620", "“ก".encode("cp874"), "“ก"),
        ("us-ascii", "é".encode(), "é"),
        ("utf-16", "é".encode(), "é"),
        ("gb2312", "é ✓ ü".encode(), "é ✓ ü"),
        ("utf-8", b"\xc3\xbc\xc3\xbc\xff", "üü\ufffd"),
        ("cp437", b"\x81", "ü"),
        ("punycode", "é".encode(), "é"),
    ],
)
def test_declared_encodings_are_those_of_browsers_and_what_is_utf8_anyway(label, content, text):
    assert decoded_as(content, label) == text
    if label != "iso-2022-jp":
        assert parse(b"<meta charset=%s><p>%s" % (label.encode(), content)).text == f"{text}\n"


def output(**data):
    return {"output_type": "display_data", "data": {f"text/{kind}": text for kind, text in data.items()}}


def test_of_displays_in_notebooks_what_people_saw_is_read():
    shown = (
        output(plain="<M object>", markdown="**812 units**"),
        output(plain="a", html="<table><tr><td>1<td>2</table>"),
    )
    more = output(plain="<M object>", latex="$y$"), {"data": {"text/plain": "<Figure>", "image/png": "x"}}
    cells = [
        {"cell_type": "markdown", "source": "```\n# no title\n```\nTitle\n==="},
        {"cell_type": "code", "source": "# no title", "outputs": [*shown, *more]},
    ]
    document = parse_notebook(json.dumps({"cells": cells}).encode())
    assert document.text.endswith("\n\n**812 units**\n\n| 1 | 2 |\n| --- | --- |\n\n$y$\n")
    assert (document.title, document.warnings) == ("Title", ["Pictures and other outputs without text are left out: 1"])


def test_chapters_without_headings_have_those_of_the_table_of_contents():
    def entry(title, target, inner=""):
        return f"<navPoint><navLabel><text>{title}</text></navLabel><content src='{target}'/>{inner}</navPoint>"

    inner = entry("Chapter 1: The Flood", "a.xhtml#one", entry("Rain", "a.xhtml#two"))
    book = {
        "META-INF/container.xml": "<c><rootfile full-path='O/p.opf'/></c>",
        "O/p.opf": "<package><manifest><item id='a' href='a.xhtml'/><item id='b' href='b.xhtml'/><item href='t' "
        "media-type='application/x-dtbncx+xml'/></manifest><spine><itemref idref='a'/><itemref idref='b'/></spine></package>",
        "O/t": f"<ncx>{entry('Part One', 'a.xhtml', inner)}{entry('Other', 'b.xhtml')}</ncx>",
        "O/a.xhtml": "<p>PART ONE<div id=one><p>Chapter 1<p>The flood<p>It rained.<p>And <a id=two></a>rained.</div>",
        "O/b.xhtml": "<h2>Own</h2><p>Words",
    }  # fmt: skip
    text = "# Part One\n\n## Chapter 1: The Flood\n\nIt rained.\n\n### Rain\n\nAnd rained.\n\n## Own\n\nWords\n"
    assert parse_book(zipped(book)).text == text
