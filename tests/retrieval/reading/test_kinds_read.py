"""What reading makes of a file of each kind: headings, tables, marks, titles and metadata."""

from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from retrieval.chunking import StructuredText
from retrieval.reading import KINDS, DocumentReader, UnreadableError, kind_named, kind_of, kind_of_file, kinds_table
from tests.support.documents import samples as made
from tests.support.documents.samples import HEADINGS, HIGH, LOW, PIPE_TABLE, zipped

SAMPLES = made.samples()
TITLED = ("html", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub", "pdf", "markdown")
WITH_HEADINGS = ("pdf", "html", "docx", "pptx", "odt", "odp", "ipynb", "rst", "markdown")
WITH_TABLE = ("html", "docx", "pptx", "odt", "xlsx", "ods", "epub", "ipynb", "mbox", "rst", "csv", "tsv", "markdown")


@pytest.fixture(scope="module")
def read():
    """A function that reads a sample, or the bytes given, as a file of a kind."""
    with closing(DocumentReader()) as reader:

        def read(kind, content=None):
            name, sample = SAMPLES[kind]
            return reader.read(sample if content is None else content, kind_named(kind), name=name)

        yield read


def headings(document):
    return [heading.title for heading in StructuredText(document.text).headings]


def line(document, number):
    return document.text.splitlines()[number - 1]


def test_there_is_a_sample_of_every_kind_and_no_suffix_or_media_type_stands_for_two():
    assert {*SAMPLES, "image"} == {kind.name for kind in KINDS if not kind.holds_documents}
    for attribute in ("suffixes", "media_types"):
        every = [each for kind in KINDS for each in getattr(kind, attribute)]
        assert len(every) == len(set(every))


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_kind_is_known_by_its_name_and_keeps_its_text_headings_tables_and_title(read, kind):
    name = SAMPLES[kind][0]
    assert kind_of(name).name == kind
    document = read(kind)
    if kind not in ("csv", "tsv", "xlsx", "ods", "code"):
        together = " ".join(document.text.split())
        assert HIGH in together
        assert LOW in together or kind == "mbox"
    assert document.text.endswith("\n") or kind in ("csv", "tsv", "code", "text", "markdown", "csv")
    assert document.warnings == [] or kind in ("xlsx", "ipynb", "email", "mbox")
    if kind in WITH_HEADINGS:
        assert [title for title in headings(document) if title in HEADINGS] == list(HEADINGS)
    assert kind not in WITH_TABLE or PIPE_TABLE in document.text
    assert kind not in TITLED or document.title == "Tides"


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        ("pdf", {"author": "Ada Tide", "tags": ["sea", "moon"]}),
        ("html", {"author": "Ada Tide", "language": "en"}),
        ("docx", {"author": "Ada Tide", "tags": ["sea", "moon"]}),
        ("xlsx", {"author": "Ada Tide"}),
        ("odt", {"author": "Ada Tide", "language": "en", "tags": ["sea"]}),
        ("epub", {"author": "Ada Tide", "language": "en", "tags": ["sea"]}),
        ("email", {"author": "Ada Tide <ada@example.org>"}),
        ("markdown", {"tags": ["sea", "moon"]}),
    ],
)
def test_what_a_file_says_of_itself_is_metadata(read, kind, metadata):
    assert read(kind).metadata == metadata


def test_pages_of_a_pdf_are_marked_their_running_lines_gone_and_its_bookmarks_are_headings(read):
    document = read("pdf")
    assert document.pages == 3
    assert [place for _, place in document.marks] == [{"page": 1}, {"page": 2}, {"page": 3}]
    assert [line(document, at).lstrip("# ") for at, _ in document.marks] == list(HEADINGS)
    assert "Almanac of the coast" not in document.text
    assert "Page 2" not in document.text
    document = read("pdf", made.outlined_pdf())
    assert [(heading.level, heading.title) for heading in StructuredText(document.text).headings] == [
        (1, HEADINGS[0]),
        (2, HEADINGS[1]),
        (2, HEADINGS[2]),
    ]
    assert "The lighthouse is lit from seven" in " ".join(document.text.split())


def test_slides_and_sheets_are_sections_with_notes_and_without_hidden_ones(read):
    for kind in ("pptx", "odp"):
        document = read(kind)
        assert [place for _, place in document.marks] == [{"slide": 1}, {"slide": 2}, {"slide": 3}]
        assert [line(document, at) for at, _ in document.marks] == [f"# {heading}" for heading in HEADINGS]
        assert document.pages == 3
    assert "## Notes\n\nSpeak of the seals" in read("pptx").text
    document = read("xlsx")
    assert document.marks == [[1, {"sheet": HEADINGS[1]}], [8, {"sheet": HEADINGS[2]}]]
    assert document.text == f"# {HEADINGS[1]}\n\n{PIPE_TABLE}\n\n# {HEADINGS[2]}\n\n{PIPE_TABLE}\n"
    assert document.warnings == ["Hidden sheets are left out: Secret"]


def test_of_a_web_page_the_main_content_is_left_and_an_article_stays_whole(read):
    text = read("html").text
    for gone in ("script", "Home of", "Navigation", "cookies", "Hidden", "Related", "Imprint", "¶", "color"):
        assert gone not in text
    assert "1. Bring boots\n    - of rubber\n2. and a map" in text
    assert "```python\nx = 1\n# no heading\n```" in text
    assert "\\# no heading either" in text
    # Parts of an article that are named like boilerplate stay.
    page = b"""<html><body><header><h1>Cookies of Brittany</h1><a href="/">Home</a></header><article>
    <header><h2>Before you bake</h2></header><section id="cookies"><p>Cookies need butter.</p></section>
    <div class="related"><p>Related to shortbread, they keep for weeks.</p></div><aside>A note on salt</aside>
    <footer>From a cook of Rennes</footer></article><div class="menu"><a href="/a">One</a> <a href="/b">Two</a></div>
    <form class="consent"><p>We bake cookies for you</p><input type="checkbox"></form></body></html>"""
    assert read("html", page).text == (
        "# Cookies of Brittany\n\n## Before you bake\n\nCookies need butter.\n\nRelated to shortbread, they keep for "
        "weeks.\n\nA note on salt\n\nFrom a cook of Rennes\n"
    )


def test_chapters_mails_outputs_and_attachments_are_sections_kept_or_named(read):
    document = read("epub")
    assert headings(document) == list(HEADINGS[1:])
    assert "Contents of the book" not in document.text
    document = read("mbox")
    assert [title for title in headings(document) if title in HEADINGS] == [HEADINGS[1], HEADINGS[2], HEADINGS[1]]
    assert "alert" not in document.text
    document = read("ipynb")
    assert "```python\n# no heading\nprint(12)\n```\n\n```text\n12\n```" in document.text
    assert document.title == HEADINGS[0]
    assert [warning[0] for warning in document.warnings] == ["1", "P"]  # an output too long, and its picture
    document = read("email")
    assert document.warnings == ["Attachments are left out: chart.pdf"]
    assert document.text.count(HIGH) == 1
    assert document.title == HEADINGS[0]
    assert "From: Ada Tide" in document.text


def test_roles_and_directives_of_sphinx_keep_their_text_and_no_file_is_included(read):
    text = read("rst").text
    assert "See the chart and sea.level" in text
    assert "The moon counts." in text
    assert "```python\n# no heading\nx = 1\n```" in text
    assert "root:" not in text
    assert "alert" not in text


def test_only_texts_have_lines_of_their_own_and_front_matter_moves_none(read):
    assert {kind.name for kind in KINDS if not kind.is_isolated} == {
        "markdown",
        "code",
        "text",
        "jsonl",
        "zip",
    }
    assert read("text").text == made.TEXT.decode()
    document = read("markdown")
    assert line(document, 5) == f"# {HEADINGS[0]}"
    assert "tags" not in document.text


@pytest.mark.parametrize("kind", ["pdf", "html", "docx", "pptx", "xlsx", "odt", "ods", "odp", "epub", "ipynb", "text"])
def test_a_file_without_a_suffix_is_known_by_its_content(kind):
    assert kind_of_file("nameless", partial(BytesIO, SAMPLES[kind][1])).name == kind


def test_a_damaged_archive_without_a_suffix_is_of_no_kind():
    content = zipped({"mimetype": "application/epub+zip" * 20})
    broken = content[:38] + b"\xff" * 9 + content[47:]  # where the compressed text begins
    with pytest.raises(UnreadableError, match="is of no kind"):
        kind_of_file("nameless", partial(BytesIO, broken))


@pytest.mark.parametrize(
    ("name", "media_type", "kind"),
    [
        ("A.PDF", None, "pdf"),
        ("a.md", "application/pdf", "markdown"),
        ("download", "text/html; charset=utf-8", "html"),
        ("notes", "TEXT/Plain", "text"),
        ("notes", "text/troff", "text"),
        ("a.docs/b.mdx", None, "markdown"),
        ("a.SRT", "application/octet-stream", "subtitles"),
        ("package.json", "text/plain", "code"),
        ("server.log", None, "text"),
        ("old.doc", "text/plain", None),
        ("photo.gif", None, None),
        ("photo.gif", "image/gif", None),
        ("photo.gif", "text/x-strange", None),
        ("README", None, None),
        (".md", None, None),
    ],
)
def test_a_kind_is_decided_by_suffix_then_by_media_type(name, media_type, kind):
    found = kind_of(name, media_type)
    assert (found and found.name) == kind


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("a.doc", r"save it as \.docx"), ("b.XLS", r"\.xlsx"), ("c.key", "Keynote.*secret"), ("d.7z", r"as \.zip")],
)
def test_what_is_not_read_is_named_with_what_to_do(name, sentence):
    with pytest.raises(UnreadableError, match=sentence) as refused:
        kind_of_file(name, lambda: BytesIO(b"text"), "text/plain")
    assert refused.value.code == "unsupported_kind"


def test_what_is_said_in_subtitles_is_paragraphs_with_speakers_and_nothing_twice(read):
    assert read("subtitles").text == f"Ada: {HIGH}\n\nBo: {LOW}\n"
    rolling = "\r\n\r\n".join(
        f"{at}\r\n00:00:0{at},000 --> 00:00:0{at},900\r\n{{\\an8}}Tide &amp; sea {at}." for at in (1, 2)
    )
    assert read("subtitles", rolling.encode()).text == "Tide & sea 1. Tide & sea 2.\n"
    long = "".join(f"00:0{at}.000 --> 00:0{at}.900\n{LOW}\n\n" for at in range(9)).replace("dusk", "dusk{}")
    assert len(read("subtitles", long.format(*range(9)).encode()).text.strip().split("\n\n")) == 2
    with pytest.raises(UnreadableError, match="no times"):
        read("subtitles", b"1\n\nNothing\n")


COMMENTED = """# Tides {/* #tides */}
The moon <!-- draft
of the moon --> and `<!-- kept -->` the sea.
```html
<!-- kept -->
```
- ~~~
  <!-- kept -->
  ~~~

      <!-- kept -->
<!-- never closed
"""


def test_comments_of_markdown_are_no_text_code_keeps_them_and_no_line_moves(read):
    document = read("markdown", COMMENTED.encode())
    assert document.text.count("<!-- kept -->") == 4
    assert not any(each in document.text for each in ("draft", "#tides"))
    assert document.text.splitlines()[:3] == ["# Tides ", "The moon ", " and `<!-- kept -->` the sea."]
    assert document.text.endswith("<!-- never closed\n")


def test_the_table_of_kinds_in_the_docs_is_this_one():
    page = (Path(__file__).parents[3] / "docs" / "reading.md").read_text()
    written = page.partition("## Kinds\n\n")[2].partition("\n\n")[0] + "\n"
    assert written == kinds_table(), "write it anew: python -m retrieval.reading"
