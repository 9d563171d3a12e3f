"""What a document once was is erased from the vectors beside its collection, and what it is now stays whole."""

import pytest

from tests.scenarios.databases import ON_BOTH
from tests.scenarios.erasure.conftest import add, ask, check_gone, erase, files_with, removed, tables_with, upload
from tests.support.live import eventually

pytestmark = pytest.mark.slow

FIRST, SECOND = {"tag": "first", "name": "report.md"}, {"tag": "second", "name": "report.md"}
OF_FIRST = {"tags": {"$contains": "first"}}


@pytest.fixture
def reembed(client, collection, models_up):
    """`reembed()`: the collection has the vectors of another model, and its old ones stand beside it."""

    def reembed():
        config = {"url": f"{models_up.url}/v1", "model": "newer"}
        connection = {"id": collection, "type": "embedding", "provider": "openai", "config": config}
        assert client.post("/api/connections", json=connection).status_code == 201
        place = f"/collections/{collection}/reembed"
        assert client.post(place, json={"connection": collection}).status_code == 202
        eventually(lambda: client.get(place).json["status"] == "complete")

    return reembed


def two_sections(word):
    """Return a text of two chunks."""
    return "\n\n".join(f"# Part {part}\n\n" + f"The plan of {word} has a part {part}. " * 60 for part in (1, 2))


@ON_BOTH
def test_a_document_keeps_its_original_when_only_its_former_chunks_match(app, client, collection, word, other, reembed):
    document = upload(client, collection, word, two_sections(word), **FIRST)
    former = client.get(f"/api/documents/{document}?collection={collection}").json["chunks"]
    ask(client, collection, word)
    reembed()
    assert upload(client, collection, other, f"# Whole\n\nThe plan of {other} is new.\n", **SECOND) == document
    ask(client, collection, other)

    receipt = erase(client, collection=collection, where=OF_FIRST)

    assert (receipt["documents"], receipt["chunks"], former > 1) == (0, 0, True)
    gone = removed(receipt)
    assert gone["former documents"] == former
    assert (gone["originals"], gone["conversations"], gone["jobs and uploads"]) == (0, 1, 0)
    with client.get(f"/api/documents/{document}/original?collection={collection}") as answer:
        assert other in answer.text
    assert client.get(f"/api/chat/{word}talk").status_code == 404
    assert client.get(f"/api/chat/{other}talk").status_code == 200
    assert client.get(f"/api/documents/{document}?collection={collection}").json["chunks"] == 1
    check_gone(app, word)

    assert removed(erase(client, collection=collection, document=document))["originals"] == 1
    assert files_with(app, other) == []


def test_a_document_of_which_nothing_is_left_but_former_chunks_is_erased_as_a_whole(
    app, client, collection, word, reembed
):
    document = upload(client, collection, word, two_sections(word), **FIRST)
    reembed()
    ask(client, collection, word)
    chunks = client.get(f"/collections/{collection}/documents").json["documents"]
    client.delete(f"/collections/{collection}/documents", json={"ids": [each["id"] for each in chunks]})

    receipt = erase(client, collection=collection, where=OF_FIRST)

    assert (receipt["documents"], receipt["chunks"]) == (1, len(chunks))
    gone = removed(receipt)
    assert (gone["originals"], gone["conversations"]) == (1, 1)
    assert "former documents" not in gone
    assert document not in tables_with(app, word)
    assert files_with(app, word) == []


def test_a_receipt_names_no_collection_that_nobody_may_name(client, collection, other, reembed):
    text = {"text": f"The words of {other} are in both.", "embedding": [1, 2, 3]}
    add(client, collection, *({"id": of, "metadata": {"of": of}, **text} for of in ("ada", "bob")))
    reembed()

    receipt = erase(client, collection=collection, where={"of": "ada"})

    assert (receipt["chunks"], receipt["also_in"]) == (1, [f"collection '{collection}'"])
