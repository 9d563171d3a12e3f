import pytest

from retrieval.ingest.drafts import is_file_name, text_to_embed
from retrieval.ingest.identity import chunk_id, document_id


def test_ids_depend_on_document_and_position_alone():
    document = document_id("guide.md")
    ids = [chunk_id(document, index) for index in range(100)]
    assert len(set(ids)) == 100
    assert (document, ids[0]) == (document_id("guide.md"), chunk_id(document, 0))
    assert chunk_id(document_id("other.md"), 0) != ids[0]


def test_ids_are_those_of_every_release():
    assert document_id("guide.md") == "04640d3e-4bac-5d88-b4ef-1682fd727fa2"
    assert chunk_id(document_id("guide.md"), 1) == "5fd6d967-f447-505c-b413-8e65f6f878cb"


def test_a_heading_is_read_once():
    assert text_to_embed("How to.", {"section": "Guide > Use", "title": "Guide"}) == "Guide > Use\n\nHow to."
    assert text_to_embed("How to.", {"section": "", "title": "Guide"}) == "Guide\n\nHow to."
    assert text_to_embed("## Use\n\nHow to.", {"section": "Use"}) == "## Use\n\nHow to."
    assert text_to_embed("How to.", {}) == "How to."


def test_the_name_of_a_file_is_no_heading():
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
