"""What a document once was is erased from the vectors beside its collection, and what it is now stays whole."""

from tests.scenarios.test_erasure import CANARY, OTHER, ask, erase, files_with, tables_with
from tests.scenarios.test_erasure import service as service  # its kinds of database
from tests.support.live import eventually


def upload(client, collection, text, tag, name="report.md"):
    """Upload the text as a file. Return the document's id."""
    headers = {"X-Filename": name, "Content-Type": "text/markdown"}
    answer = client.post(f"/api/documents?collection={collection}&tags={tag}", data=text.encode(), headers=headers)
    place = f"/api/jobs/{answer.json['job']['id']}"
    eventually(lambda: client.get(place).json["status"] == "done")
    (file,) = client.get(place).json["files"]
    return file["document_id"]


def reembed(client, collection, models_up):
    config = {"url": f"{models_up.url}/v1", "model": "newer"}
    connection = {"id": "newer", "type": "embedding", "provider": "openai", "config": config}
    assert client.post("/api/connections", json=connection).status_code == 201
    place = f"/collections/{collection}/reembed"
    assert client.post(place, json={"connection": "newer"}).status_code == 202
    eventually(lambda: client.get(place).json["status"] == "complete")


def two_sections(word):
    """Return a text of two chunks."""
    return "\n\n".join(f"# Part {part}\n\n" + f"The plan of {word} has a part {part}. " * 60 for part in (1, 2))


def test_a_document_keeps_its_original_when_only_its_former_chunks_match(service, collection, models_up):
    with service() as app:
        client = app.test_client()
        document = upload(client, collection, two_sections(CANARY), "first")
        former = client.get(f"/api/documents/{document}?collection={collection}").json["chunks"]
        ask(client, collection, CANARY)
        reembed(client, collection, models_up)
        assert upload(client, collection, f"# Whole\n\nThe plan of {OTHER} is new.\n", "second") == document
        ask(client, collection, OTHER)
        original = f"/api/documents/{document}/original?collection={collection}"

        receipt = erase(client, collection=collection, where={"tags": {"$contains": "first"}})

        assert (receipt["documents"], receipt["chunks"], former > 1) == (0, 0, True)
        removed = {each["place"]: each["removed"] for each in receipt["files"]}
        assert removed["former documents"] == former
        assert (removed["originals"], removed["conversations"], removed["jobs and uploads"]) == (0, 1, 0)
        with client.get(original) as answer:
            assert OTHER in answer.text
        assert client.get(f"/api/chat/{CANARY}talk").status_code == 404
        assert client.get(f"/api/chat/{OTHER}talk").status_code == 200
        assert client.get(f"/api/documents/{document}?collection={collection}").json["chunks"] == 1
        assert tables_with(app, CANARY) == []
        assert files_with(app, CANARY) == []

        receipt = erase(client, collection=collection, document=document)
        assert {each["place"]: each["removed"] for each in receipt["files"]}["originals"] == 1
    assert files_with(app, OTHER) == []


def test_a_conversation_about_another_document_with_the_same_letterhead_stays(service, collection, models_up):
    letterhead = "All that is told in this letter is told in confidence. " * 5
    with service() as app:
        client = app.test_client()
        upload(client, collection, f"{letterhead}The plan of {CANARY}.", "first")
        reembed(client, collection, models_up)
        upload(client, collection, "The plan is new.", "second")
        upload(client, collection, f"{letterhead}Another plan.", "second", name="other.md")
        chat = {
            "message": letterhead,
            "useRag": True,
            "collections": [collection],
            "conversationId": "talk",
            "ragTopK": 1,
        }
        (source,) = client.post("/api/chat", json=chat).json["ragSources"]
        assert letterhead[:200] in source["text"]

        erase(client, collection=collection, where={"tags": {"$contains": "first"}})

        assert client.get("/api/chat/talk").status_code == 200
    assert files_with(app, CANARY) == []


def test_a_document_of_which_nothing_is_left_but_former_chunks_is_erased_as_a_whole(service, collection, models_up):
    with service() as app:
        client = app.test_client()
        document = upload(client, collection, two_sections(CANARY), "first")
        reembed(client, collection, models_up)
        ask(client, collection, CANARY)
        chunks = client.get(f"/collections/{collection}/documents").json["documents"]
        client.delete(f"/collections/{collection}/documents", json={"ids": [each["id"] for each in chunks]})

        receipt = erase(client, collection=collection, where={"tags": {"$contains": "first"}})

        assert (receipt["documents"], receipt["chunks"]) == (1, len(chunks))
        removed = {each["place"]: each["removed"] for each in receipt["files"]}
        assert (removed["originals"], removed["conversations"]) == (1, 1)
        assert "former documents" not in removed
        assert document not in tables_with(app, CANARY)
    assert files_with(app, CANARY) == []


def test_a_receipt_names_no_collection_that_nobody_may_name(service, collection, models_up):
    with service() as app:
        client = app.test_client()
        documents = [
            {"id": of, "text": f"The words of {OTHER} are in both.", "metadata": {"of": of}, "embedding": [1, 2, 3]}
            for of in ("ada", "bob")
        ]
        client.post("/collections", json={"name": collection})
        client.post(f"/collections/{collection}/documents", json={"documents": documents})
        reembed(client, collection, models_up)

        receipt = erase(client, collection=collection, where={"of": "ada"})

        assert (receipt["chunks"], receipt["also_in"]) == (1, [f"collection '{collection}'"])
