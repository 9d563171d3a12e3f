"""Contract *rules*, over HTTP: batches of documents, and which of them are refused."""

import uuid

import pytest

from tests.scenarios.rules.conftest import BARRICADES, rule, sections


def test_contract_test_5_ingest_idempotency(ingest, retrieve, chunks):
    document_id = str(uuid.uuid4())
    ingest(rule("a.md", BARRICADES[0], document_id))
    before = chunks(document_id=document_id)
    result = ingest(rule("a.md", BARRICADES[2], document_id))
    assert (result["documents_processed"], result["documents_failed"], result["embedding_count"]) == (1, 0, 1)
    after = chunks(document_id=document_id)
    assert [each["text"] for each in after] == [BARRICADES[2]]
    assert [each["id"] for each in after] == [each["id"] for each in before]
    assert sections(retrieve("dice", min_relevance=0)) == ["Dice"]


def test_unchanged_documents_are_not_embedded_again_and_contract_keys_cannot_be_forged(ingest, chunks):
    documents = [rule(f"{number}.md", content) for number, content in enumerate(BARRICADES)]
    assert ingest(*documents)["embedding_count"] == 3
    before = chunks()
    again = ingest(*documents)
    assert (again["documents_processed"], again["embedding_count"]) == (3, 0)
    assert chunks() == before
    document_id = str(uuid.uuid4())
    document = rule("a.md", BARRICADES[0], document_id, mine="kept")
    contract = ("document_id", "chunk_index", "content_hash", "embedding_model", "created_at", "path")
    document["metadata"] |= dict.fromkeys(contract, "forged")
    ingest(document)
    (stored,) = chunks(document_id=document_id)
    assert stored["metadata"]["mine"] == "kept"
    assert "forged" not in {stored["metadata"].get(name) for name in contract}
    assert stored["metadata"]["embedding_model"] == "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"source": None}, "metadata.source"),
        ({"doc_type": None}, "metadata.doc_type"),
        ({"doc_type": "novel"}, "metadata.doc_type"),
        ({"last_update_date": None}, "metadata.last_update_date"),
        ({"last_update_date": "yesterday"}, "metadata.last_update_date"),
        ({"source": 7}, "metadata.source"),
        ({"document_id": "no-uuid"}, "document_id must be a UUID"),
        ({"document_id": ""}, "document_id must be a UUID"),
        ({"document_id": ["x"]}, "document_id must be a UUID"),
    ],
)
def test_invalid_document_error_skips_the_document_and_stores_its_siblings(ingest, chunks, wrong, complaint):
    result = ingest(rule("good.md", BARRICADES[0]), rule("bad.md", BARRICADES[1], **wrong), rule("c.md", BARRICADES[2]))
    assert (result["documents_processed"], result["documents_failed"]) == (2, 1)
    assert result["errors"] == ["bad.md"]
    assert (result["failures"][0]["index"], result["failures"][0]["code"]) == (1, "invalid_document")
    assert complaint in result["failures"][0]["message"]
    assert {each["metadata"]["path"] for each in chunks()} == {"good.md", "c.md"}


def test_replace_missing_deletes_what_is_not_in_the_batch(ingest, chunks):
    """Also where nothing is stored, when there is nothing to delete."""
    nothing = ingest(rule("bad.md", BARRICADES[0], source=None), replace_missing=True)
    assert (nothing["documents_processed"], nothing["errors"]) == (0, ["bad.md"])
    ingest(*(rule(f"{number}.md", content) for number, content in enumerate(BARRICADES)))
    ingest(rule("0.md", BARRICADES[0]), rule("bad.md", BARRICADES[1], source=None), replace_missing=True)
    assert {each["metadata"]["path"] for each in chunks()} == {"0.md"}
    # The old version of a document that is refused stays.
    ingest(*(rule(f"{number}.md", content) for number, content in enumerate(BARRICADES)))
    ingest(rule("0.md", BARRICADES[0]), rule("1.md", BARRICADES[1], "no-uuid"), replace_missing=True)
    assert {each["metadata"]["path"] for each in chunks()} == {"0.md", "1.md"}
