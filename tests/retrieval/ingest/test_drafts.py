import pytest

from providers.embeddings.minilm import MiniLMProvider
from retrieval.chunking import SplitDocument, Syntax, split_sections
from retrieval.chunking.tokens import token_counter
from retrieval.ingest.drafts import SourceDocument, drafts_of, is_file_name, text_to_embed
from retrieval.ingest.files import GivenFile, source_document
from retrieval.ingest.identity import chunk_id, document_id, same_file, text_document_id
from retrieval.ingest.profiles import chunking_of, window_tokens
from retrieval.reading import Parsed, kind_named
from retrieval.reading.front_matter import split_front_matter
from schemas.settings import RetrievalSettings
from schemas.ways import CHUNKINGS
from schemas.where import In
from tests.retrieval.letter_embedding import LetterEmbedding


def test_ids_depend_on_document_and_position_alone_and_a_file_is_also_the_text_of_its_folder_and_path():
    document = document_id("guide.md")
    ids = [chunk_id(document, index) for index in range(100)]
    assert len(set(ids)) == 100
    assert (document, ids[0]) == (document_id("guide.md"), chunk_id(document, 0))
    assert chunk_id(document_id("other.md"), 0) != ids[0]
    assert document_id("guide.md") == "04640d3e-4bac-5d88-b4ef-1682fd727fa2"
    assert chunk_id(document_id("guide.md"), 1) == "5fd6d967-f447-505c-b413-8e65f6f878cb"
    texts = (text_document_id("docs", "a/b.md"), text_document_id("docs", "/a/b.md"))
    assert same_file("docs/a/b.md") == In("document_id", (document_id("docs/a/b.md"), *texts))


def test_a_heading_is_read_once_and_the_name_of_a_file_is_none():
    assert text_to_embed("How to.", {"section": "Guide > Use", "title": "Guide"}) == "Guide > Use\n\nHow to."
    assert text_to_embed("How to.", {"section": "", "title": "Guide"}) == "Guide\n\nHow to."
    assert text_to_embed("## Use\n\nHow to.", {"section": "Use"}) == "## Use\n\nHow to."
    assert text_to_embed("How to.", {}) == "How to."
    told = {"title": "guide.md", "title_is_file_name": True}
    assert text_to_embed("How to.", told) == "How to."
    assert text_to_embed("How to.", {**told, "section": "Use"}) == "Use\n\nHow to."


@pytest.mark.parametrize(
    ("title", "path", "is_one"),
    [
        ("guide.md", "docs/guide.md", True),
        ("guide", "docs/guide.md", True),
        ("Guide", "docs/guide.md", False),
        ("Guide", "wiki/Guide", False),
        ("guide.md", "", False),
        ("guide.tar", "https://example.com/guide.tar.gz", True),
    ],
)
def test_a_title_is_a_file_name_when_the_path_ends_with_it(title, path, is_one):
    assert is_file_name(title, path) is is_one


TEXT = "# One\n\nfirst\n\n# Two\n\nsecond\n\n# Three\n\nthird\n"


def sections(text: str) -> SplitDocument:
    return SplitDocument(split_sections(text), [])


PAGES = ((1, {"page": 1}), (5, {"page": 2}), (7, {"page": 3}))


def test_a_chunk_has_the_mark_that_holds_where_it_begins_and_before_the_first_none():
    document = SourceDocument("d", "T", TEXT, {}, sections, kind="pdf", marks=PAGES)
    drafts, _ = drafts_of(document, "m")
    assert [(each.metadata["page"], each.metadata["kind"]) for each in drafts] == [(1, "pdf"), (2, "pdf"), (3, "pdf")]
    assert not any("start_line" in each.metadata for each in drafts)
    document = SourceDocument("d", "T", TEXT, {}, sections, marks=((5, {"sheet": "Q1"}),))
    drafts, _ = drafts_of(document, "m")
    assert [each.metadata.get("sheet") for each in drafts] == [None, "Q1", "Q1"]
    assert [each.metadata["start_line"] for each in drafts] == [1, 5, 9]
    marks = ((1, {"sheet": "Empty"}), (3, {"sheet": "Q2"}))
    drafts, _ = drafts_of(SourceDocument("d", "T", "# Empty\n\n# Q2\n\n2", {}, sections, marks=marks), "m")
    assert [(each.metadata["sheet"], each.metadata["section"]) for each in drafts] == [("Q2", "Q2")]
    said = {"attributes.kind": "odd", "kind": "howto"}
    drafts, _ = drafts_of(SourceDocument("d", "T", "text", said, sections, kind="markdown"), "m")
    kinds = ("kind", "attributes.kind", "attributes.attributes.kind")
    assert [drafts[0].metadata[each] for each in kinds] == ["markdown", "howto", "odd"]


def read(given=None, kind="pdf", **told):
    file = GivenFile("docs/a.pdf", b"x", kind_named(kind), **(given or {}))
    chunking = chunking_of(RetrievalSettings(), LetterEmbedding())
    return source_document(file, Parsed(**{"text": TEXT, **told}), chunking=chunking)


def test_what_a_file_says_of_itself_is_below_what_was_given_and_forges_nothing_nor_do_its_tags_and_title():
    document = read(
        {"metadata": {"author": "given"}, "tags": ["b", "a"]},
        title="A title",
        pages=3,
        marks=PAGES,
        warnings=("An image has no text",),
        metadata={
            "author": "own",
            "team": "x",
            "tags": ["a", "c"],
            "source": "forged",
            "kind": "forged",
            "hash": "forged",
        },
    )
    drafts, warnings = drafts_of(document, "m")
    told = drafts[0].metadata
    assert (told["author"], told["team"], told["tags"], told["source"]) == ("given", "x", ["b", "a", "c"], "docs/a.pdf")
    assert (told["title"], told["kind"], told["pages"], told["page"]) == ("A title", "pdf", 3, 1)
    assert told["hash"] == document.hash != "forged"
    assert warnings == ["An image has no text"]
    document = read({"metadata": {"tags": ["b", "x"]}, "tags": ["a", "b"]}, metadata={"tags": ["c", "d"]})
    assert document.metadata["tags"] == ["a", "b", "x", "c", "d"]
    assert (read().title, read().title_is_file_name) == ("One", False)
    assert (read(text="plain").title, read(text="plain").title_is_file_name) == ("a.pdf", True)
    for kind in ("xlsx", "ods", "mbox"):
        assert read(kind=kind).title == "a.pdf", "a sheet's name, or the first mail's subject"
    for text in ("# (no subject)\n\nHi", "# Slide 1\n\nHigh water", "A letter.\n\n# Vacation\n\nIn May"):
        assert read(text=text).title == "a.pdf"


@pytest.mark.parametrize(("below", "title"), [("# yaml\n", "yaml"), ("No heading.\n", "a.pdf")])
@pytest.mark.parametrize("inside", ["title: {a: 1}\nb: [", "title: [never closed"])
def test_front_matter_that_cannot_be_read_gives_no_title(inside, below, title):
    front = split_front_matter(f"---\n{inside}\n---\n{below}")
    assert front.warnings
    assert read(text=front.text, title=front.title).title == title


FORGED = {"page": "seven", "last_page": 9, "sheet": "x", "slide": 2, "start_line": 99, "team": "x"}


@pytest.mark.parametrize(
    ("given", "own"),
    [({}, {"metadata": FORGED}), ({"metadata": FORGED}, {}), ({"metadata": FORGED}, {"metadata": FORGED})],
)
def test_no_metadata_of_a_file_is_taken_for_the_place_of_a_chunk(given, own):
    marked, _ = drafts_of(read(given, **own, marks=PAGES), "m")
    assert [places(each.metadata) for each in marked] == [{"page": 1}, {"page": 2, "last_page": 3}, {"page": 3}]
    lines, _ = drafts_of(read(given, "markdown", **own), "m")
    assert [places(each.metadata) for each in lines] == [{"start_line": 1}, {"start_line": 5}, {"start_line": 9}]
    neither, _ = drafts_of(read(given, **own), "m")
    assert [places(each.metadata) for each in neither] == [{}, {}, {}]
    assert all(each.metadata["team"] == "x" for each in (*marked, *lines, *neither))


def test_a_chunk_some_of_which_was_recognised_says_so_and_nobody_else_does():
    pages = [(line, {**mark, "ocr": True} if mark["page"] == 3 else mark) for line, mark in PAGES]
    drafts, _ = drafts_of(read({"metadata": {"ocr": "mine"}}, marks=pages), "m")
    assert [each.metadata.get("ocr") for each in drafts] == [None, True, True]
    assert {each.metadata["attributes.ocr"] for each in drafts} == {"mine"}


def places(metadata):
    return {name: value for name, value in metadata.items() if name in FORGED and name != "team"}


@pytest.mark.parametrize(
    ("kind", "content_type"), [("code", "code"), ("html", "documentation"), ("text", "documentation")]
)
def test_every_file_has_the_content_type_that_the_context_tools_filter_by(kind, content_type):
    assert read(kind=kind).metadata["contentType"] == content_type


GUIDE = "# Guide\n\n" + "How to start. " * 700 + "\n\n## Use\n\nDo that.\n"
CODE = "".join(f"value_{number} = {number}\n" for number in range(400))
CL100K = token_counter()


class Told(LetterEmbedding):
    max_input_tokens = 8_000


def test_sections_fit_into_the_window_of_the_model():
    assert window_tokens(MiniLMProvider({})) == 256
    assert window_tokens(LetterEmbedding()) == 512
    assert window_tokens(Told()) == 8_000
    for embedding, most in ((MiniLMProvider({}), 256), (LetterEmbedding(), 512)):
        assert chunking_of(RetrievalSettings(), embedding).max_tokens == most


@pytest.mark.parametrize(("profile", "chunks"), [("sections", 8), ("windows", 3), ("whole", 1)])
def test_the_setting_chooses_the_profile(profile, chunks):
    chunking = chunking_of(RetrievalSettings(chunking=profile), LetterEmbedding())
    assert abs(len(chunking.splitter(Syntax.MARKDOWN)(GUIDE).chunks) - chunks) <= 1


@pytest.mark.parametrize("profile", CHUNKINGS)
def test_code_is_split_into_windows_of_its_lines_by_every_profile(profile):
    chunking = chunking_of(RetrievalSettings(chunking=profile), LetterEmbedding())
    chunks = chunking.splitter(Syntax.CODE)(CODE).chunks
    assert len(chunks) > 5
    assert all(128 <= CL100K.count(chunk.text) <= 256 for chunk in chunks[:-1])
    assert all(line in CODE.splitlines() for chunk in chunks for line in chunk.text.splitlines())


def test_what_decides_where_cuts_are_is_in_the_label():
    settings = [RetrievalSettings(chunking=profile) for profile in CHUNKINGS]
    settings += [RetrievalSettings(chunking="windows", chunk_max_tokens=most) for most in (100, 101)]
    settings += [RetrievalSettings(chunking="whole", whole_max_tokens=100), RetrievalSettings(whole_header_level=1)]
    labels = [chunking_of(each, LetterEmbedding()).label for each in settings]
    assert len(set(labels)) == len(settings)
    assert labels == [chunking_of(each, LetterEmbedding()).label for each in settings]
