"""Texts to ingest in the tests of the contract *documents*, and a reader of its errors."""

BACKUPS = "Backups are kept for thirty days and encrypted at rest. They run every night at two."
HOLIDAY = "Employees have thirty days of holiday, and five more after ten years."
DOCUMENT = {"source": "test", "path": "/doc", "title": "Test", "text": "Content"}
SENTENCE = "Sentence number {} tells something about the storage of documents and of their embeddings. "


def fault(answer):
    assert answer["error"] == "Validation error"
    assert answer["message"] == answer["details"]["message"]
    return answer["details"]["field"], answer["details"]["message"]
