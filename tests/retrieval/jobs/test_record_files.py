"""Files of records in jobs: each line is a document of its own."""

import json
from contextlib import suppress

import pytest

from retrieval.ingest.identity import record_id
from retrieval.jobs import record_files
from retrieval.jobs.ingesting import StoppedError
from retrieval.jobs.uploads import Uploads
from schemas.access.owners import Asker
from schemas.errors import InvalidInputError, UnavailableError
from schemas.storage.erasure import Target, UploadWaitingError


def lines(*records):
    return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in records)


def stored(parts):
    return {each.id: each for each in parts.texts.writer(parts.collection).stored_by_id(parts.ids).values()}


@pytest.fixture
def parts(parts):
    parts.ids = [f"d{number}" for number in range(300)]
    return parts


def test_each_line_is_a_document_with_what_was_given_and_a_second_time_only_what_changed_is_embedded(parts):
    records = [{"id": "d0", "title": "T", "text": "one", "metadata": {"n": 1, "tags": ["own"]}}, {"text": "two"}, " "]
    given = {"tags": ("ops",), "metadata": {"team": "x"}}
    parts.ids.append(record_id("data.jsonl", "", "two"))
    [file] = parts.ingest(("docs/data.jsonl", lines(*records, {"text": "two"})), **given).files
    assert (file.status, file.chunks, file.chunks_done, file.document_id, file.warnings) == ("done", 2, 2, None, ())
    found = stored(parts)
    own = {"n": 1, "tags": ["ops", "own"], "team": "x", "title": "T", "source": "docs/data.jsonl"}
    assert found["d0"].metadata.items() >= own.items()
    assert {each.text for each in found.values()} == {"one", "two"}
    parts.batches.clear()
    assert parts.ingest(("docs/data.jsonl", lines(*records)), **given).files[0].status == "unchanged"
    records[0]["text"] = "uno"
    [kept] = parts.ingest(("docs/data.jsonl", lines(*records)), on_conflict="skip", **given).files
    assert (kept.status, parts.batches) == ("unchanged", [])
    assert parts.ingest(("docs/data.jsonl", lines(*records)), **given).files[0].status == "done"
    assert (parts.batches, stored(parts)["d0"].text) == ([1], "uno")
    assert [chunks for _, chunks in parts.record.stored_chunks] == [2, 1]


def test_the_id_that_an_earlier_load_with_a_prefix_made_stays(parts):
    old = record_id("own/data.jsonl", "", "two")
    parts.ids.append(old)
    parts.ingest(("own/data.jsonl", lines({"text": "two", "id": old})))
    assert parts.ingest(("own/data.jsonl", lines({"text": "two"}))).files[0].status == "unchanged"
    assert list(stored(parts)) == [old]


def test_bad_lines_are_named_and_the_others_are_stored(parts, monkeypatch):
    monkeypatch.setattr(record_files, "MAX_NAMED", 4)
    records = [{"id": f"d{number}", "text": f"text {number}", "embedding": [1, number]} for number in range(250)]
    records[120] = {"id": "d120"}
    records[130]["embedding"] = [1, 2, 3]
    records[140] = records[141] = "{"
    records[240] = {"id": "d3", "text": "again", "embedding": [1, 1]}
    [file] = parts.ingest(("data.jsonl", lines(*records))).files
    assert (file.status, file.chunks, parts.batches, len(stored(parts))) == ("done", 245, [], 245)
    assert [each.partition(":")[0] for each in file.warnings[:-1]] == [f"line {n}" for n in (121, 131, 141, 142)]
    assert file.warnings[0] == "line 121: 'text' is missing"
    assert file.warnings[-1] == "1 more lines could not be stored"


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [("\n\n ", "empty", "contains no text"), ("{}\n[]", "unreadable", "stored; line 1: 'text' is missing")],
)
def test_a_file_without_a_record_has_failed(parts, content, code, message):
    [file] = parts.ingest(("data.jsonl", content)).files
    assert (file.status, file.code) == ("failed", code)
    assert message in file.message


@pytest.mark.parametrize("error", [InvalidInputError("is refused"), UnavailableError("500 for a text")])
def test_a_text_that_cannot_be_embedded_is_left_out_at_once(parts, error):
    def embed(connection, texts):
        if any("BAD" in each for each in texts):
            raise type(error)(error.message)
        return connection.embed(texts)

    parts.embed = embed
    texts = ["BAD" if number in (7, 9) else f"text {number}" for number in range(30)]
    [file] = parts.ingest(
        ("data.jsonl", lines(*({"id": f"d{at}", "text": each} for at, each in enumerate(texts))))
    ).files
    told = [f"line {line}: A text (“BAD”) cannot be embedded: {error.message}" for line in (8, 10)]
    assert (file.status, list(file.warnings), len(stored(parts))) == ("done", told, 28)


@pytest.mark.parametrize("how", ["stop", "kill", "failing service", "cancel"])
def test_what_was_stored_before_the_work_broke_off_is_not_embedded_again(parts, monkeypatch, how):
    monkeypatch.setattr(record_files, "BATCH_DOCUMENTS", 20)
    job_id = parts.upload(("data.jsonl", lines(*({"id": f"d{at}", "text": f"text {at}"} for at in range(90)))))

    def break_off():
        if how == "kill":
            raise SystemExit("as if it were killed")
        if how == "failing service":
            raise UnavailableError("Not now", error_type="rate_limit")
        parts.stopping.set() if how == "stop" else parts.jobs.cancel(job_id, asker=Asker())

    parts.while_embedding(lambda: len(parts.batches) == 3 and break_off())
    with suppress(StoppedError, SystemExit):
        assert parts.run().files[0].code == "embedding_unavailable"
    assert len(stored(parts)) == (60 if how in ("stop", "cancel") else 40)
    parts.stopping.clear()
    parts.while_embedding(lambda: None)
    parts.batches.clear()
    parts.now += 1
    [file] = parts.run().files
    if how == "cancel":
        assert (parts.batches, parts.record.stored_chunks) == ([], [(parts.collection, 60)])
    else:
        assert (file.status, file.chunks, len(stored(parts)), file.warnings) == ("done", 90, 90, ())
        assert parts.batches == ([20, 10] if how == "stop" else [20, 20, 10])


def test_no_document_is_erased_while_records_wait_that_may_be_its(parts):
    uploads = Uploads(parts.jobs, parts.spool, max_file_bytes=9, id_of=parts.texts.id_of)
    target = Target(collection=parts.collection, document_ids=frozenset({"d0"}))
    parts.upload(("data.jsonl", lines({"id": "d1", "text": "one"}, "{")))
    with pytest.raises(UploadWaitingError):
        uploads.named(target)
    parts.run()
    assert uploads.erase(uploads.named(target)) == 1, "since warnings tell words"


def test_a_document_beside_embeddings_of_somebodys_own_says_that_searches_leave_them_out(parts):
    made = parts.texts.embedding().embed(["one"])[0].tolist()
    [records] = parts.ingest(("own.jsonl", lines({"id": "d0", "text": "one", "embedding": made}))).files
    [document] = parts.ingest(("a.md", "Two.")).files
    assert (records.status, records.warnings, document.status) == ("done", (), "done")
    assert document.warnings == (
        f"Collection '{parts.collection}' names no embedding model: only a search that names it asks it",
    )
