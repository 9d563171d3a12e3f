"""What the work on jobs makes of their files."""

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from retrieval.documents.originals import Originals
from retrieval.ingest import identity
from retrieval.ingest.collection_writer import text_collection_metadata
from retrieval.ingest.files import GivenFile
from retrieval.ingest.profiles import chunking_of
from retrieval.jobs import ingesting
from retrieval.jobs.ingesting import Outcome, StoppedError
from retrieval.reading import DocumentReader, Parsed, kind_named
from retrieval.workers.worker_process import WorkerTimeoutError
from schemas.access.callers import ANYBODY, Scope
from schemas.access.owners import Asker
from schemas.errors import (
    AuditUnwritableError,
    BusyError,
    ConfigurationError,
    InvalidInputError,
    ScopeMissingError,
    UnavailableError,
)
from schemas.settings import RetrievalSettings
from schemas.where import And, Equals
from tests.retrieval.stored_folder import ingest_file
from wrapper.writing import WriteOptions

LONG = "\n\n".join(f"# Part {number}\n\n" + f"Words of part {number}. " * 30 for number in range(100))
"""A Markdown text of a hundred chunks: more than three batches."""


def listed(parts):
    return {each.source: each for each in parts.documents.page((parts.collection,)).documents}


def outcomes(job):
    return [(each.status, each.code) for each in job.files]


def ends(parts):
    """From now on, whoever uploaded may not write any more."""

    def caller_of():
        raise ScopeMissingError(Scope.WRITE)

    parts.caller_of = caller_of


def left_in_spool(parts, job_id):
    folder = parts.spool.path(job_id, 0).parent
    return sorted(each.name for each in folder.iterdir()) if folder.exists() else []


def test_each_file_becomes_a_document_with_what_was_given(parts):
    job_id = parts.upload(
        ("docs/a.md", "---\ntags: own\nsource: a book\n---\n# Backups\n\nEvery night."),
        ("b.py", "print('restore')\n"),
        tags=("ops",),
        metadata={"team": "x", "title": "Mine", "created_at": 7, "page": 3},
    )
    job = parts.run()
    assert [(each.status, each.chunks, each.chunks_done, each.code) for each in job.files] == [("done", 1, 1, None)] * 2
    assert job.status == "done"
    assert left_in_spool(parts, job_id) == []
    found = listed(parts)
    assert {source: (each.kind, each.title) for source, each in found.items()} == {
        "docs/a.md": ("markdown", "Backups"),
        "b.py": ("code", "b.py"),
    }
    first = found["docs/a.md"]
    assert (first.tags, first.document_id, first.size_bytes) == (["ops", "own"], job.files[0].document_id, 56)
    said = {"title": "Mine", "created_at": 7, "page": 3, "source": "a book"}
    where = And(tuple(Equals(f"attributes.{name}", value) for name, value in said.items()))
    [chunk] = parts.texts.writer(parts.collection).documents(where)
    assert (chunk.metadata["team"], chunk.metadata["title"], "page" in chunk.metadata) == ("x", "Backups", False)
    stored, chunks = parts.documents.with_chunks(first.document_id, parts.collection)
    assert (stored, [(each.text, each.section, each.start_line) for each in chunks]) == (
        first,
        [("# Backups\n\nEvery night.", "Backups", 5)],
    )


def test_a_file_that_cannot_be_stored_is_told_and_the_others_go_on(parts):
    bad = ("a.txt", " \n"), ("b.txt", b"\0\1\2\3"), ("c", b"\x7fELF\0\0\0"), ("c.md", "A defect.")
    job_id = parts.upload(*bad, ("d.txt", "Good."))
    parts.while_embedding(lambda: 1 / (len(parts.batches) - 1))
    job = parts.run()
    failed = [("failed", code) for code in ("empty", "unreadable", "unsupported_kind", "internal_error")]
    assert outcomes(job) == [*failed, ("done", None)]
    assert all(each.message for each in job.files[:3])
    assert job.files[3].message == "Internal error"
    assert job.status == "done"
    assert left_in_spool(parts, job_id) == []
    assert list(listed(parts)) == ["d.txt"]


@pytest.mark.parametrize(("ended_in", "embedded"), [(2, [32, 32]), (4, [32, 32, 32, 4])])
def test_a_file_is_not_stored_when_its_caller_loses_the_right_to_write_as_it_is_embedded(parts, ended_in, embedded):
    parts.ingest(("long.md", "# Long\n\nAs it was."))
    before = listed(parts)
    parts.batches.clear()
    parts.while_embedding(lambda: ends(parts) if len(parts.batches) == ended_in else None)
    job_id = parts.upload(("long.md", LONG), ("b.txt", "Late."))
    job = parts.run()
    assert outcomes(job) == [("failed", "scope_missing")] * 2
    assert parts.batches == embedded
    assert left_in_spool(parts, job_id) == []
    assert listed(parts) == before
    assert len(parts.record.stored_chunks) == 1


def test_a_file_is_not_emptied_for_a_caller_who_may_not_write_any_more(parts):
    parts.ingest(("a.md", "# A\n\nAs it was."))
    before = listed(parts)

    def split(chunking, syntax, text):
        ends(parts)
        return replace(chunking.splitter(syntax)(text), chunks=[])

    parts.split = split
    parts.upload(("a.md", LONG))
    assert [each.code for each in parts.run().files] == ["scope_missing"]
    assert listed(parts) == before


def test_a_job_that_is_erased_as_a_file_begins_stores_nothing(parts):
    job_id = parts.upload(("a.txt", "Late."))
    parts.caller_of = lambda: (parts.jobs.erase([job_id]), ANYBODY)[1]
    with pytest.raises(StoppedError):
        parts.run()
    assert parts.texts.corpus.open().existing([parts.collection]) == []
    assert parts.record.stored_chunks == []


def test_each_file_that_is_stored_or_found_unchanged_is_recorded_and_one_that_cannot_be_waits_and_is_not_stored(
    parts, monkeypatch
):
    monkeypatch.setattr(ingesting, "PAUSES_SECONDS", (0, 0))
    monkeypatch.setattr(ingesting, "COLLECTION_SECONDS", 0)
    refusals, embedded = [WorkerTimeoutError("It hung"), BusyError("It lags", collection="c")], []
    refusals.append(AuditUnwritableError("no room"))

    def check(job):
        embedded.append(len(parts.batches))
        if refusals:
            raise refusals.pop()

    parts.record.check = check
    assert [each.status for each in parts.ingest(("c.md", "Words.")).files] == ["done"]
    assert (embedded, len(parts.batches)) == ([0, 0, 0, 0], 1)
    told = [Outcome.SERVICE_FAILS, Outcome.COLLECTION_WAITS, Outcome.NOTHING, Outcome.STORED]
    assert parts.outcomes == told
    parts.record.stored_chunks.clear()
    for _ in range(2):
        parts.ingest(("a.md", LONG), ("b.md", " "), ("d.md", "Other words."))
    assert parts.record.stored_chunks == [(parts.collection, chunks) for chunks in (100, 1, 0, 0)]


def test_the_same_file_again_is_unchanged_and_another_one_replaces_it(parts):
    assert parts.ingest(("a.md", "# One\n\nFirst.")).files[0].status == "done"
    before = listed(parts)["a.md"]
    assert parts.ingest(("a.md", "# One\n\nFirst.")).files[0].status == "unchanged"
    assert parts.batches == [1]
    parts.upload(("a.md", "# Two\n\nSecond."), on_conflict="skip")
    skipped = parts.run().files[0]
    assert (skipped.status, len(skipped.warnings)) == ("unchanged", 1)
    assert listed(parts) == {"a.md": before}
    assert parts.ingest(("a.md", "# Two\n\nSecond.")).files[0].status == "done"
    assert listed(parts)["a.md"].title == "Two"
    assert listed(parts)["a.md"].document_id == before.document_id


def test_a_job_cancelled_between_two_batches_ends_there(parts):
    job_id = parts.upload(("a.md", "# A\n\nShort."), ("long.md", LONG), ("c.md", "# C\n\nNever."))
    parts.while_embedding(lambda: len(parts.batches) == 3 and parts.jobs.cancel(job_id, asker=Asker()))
    with pytest.raises(StoppedError):
        parts.run()
    assert parts.batches == [1, 32, 32]
    job = parts.jobs.one(job_id, asker=Asker())
    assert (job.status, [each.status for each in job.files]) == ("cancelled", ["done", "queued", "queued"])
    assert list(listed(parts)) == ["a.md"]
    assert parts.jobs.due() == []


def test_a_stopped_job_goes_on_where_it_was_however_often_it_is_stopped(parts, monkeypatch):
    monkeypatch.setattr(ingesting, "MAX_BEGINNINGS", 2)
    job_id = parts.upload(("a.md", "# A\n\nShort."), ("long.md", LONG))
    parts.while_embedding(lambda: len(parts.batches) > 1 and parts.stopping.set())
    for _ in range(4):
        with pytest.raises(StoppedError):
            parts.run()
        job = parts.jobs.one(job_id, asker=Asker())
        assert (job.status, [each.status for each in job.files]) == ("running", ["done", "queued"])
        parts.stopping.clear()
    parts.batches.clear()
    parts.while_embedding(lambda: None)
    job = parts.run()
    assert (job.status, [each.status for each in job.files]) == ("done", ["done", "done"])
    assert parts.batches == [32, 32, 32, 4]
    assert job.files[1].chunks == listed(parts)["long.md"].chunk_count == 100


def test_what_was_stored_before_a_kill_is_not_embedded_again(parts, monkeypatch):
    job_id = parts.upload(("long.md", LONG))
    tell = parts.jobs.tell

    def die(*args, lasting=False):
        if lasting:
            raise SystemExit("killed between storing the document and telling so")
        tell(*args)

    with monkeypatch.context() as patch:
        patch.setattr(parts.jobs, "tell", die)
        with pytest.raises(SystemExit):
            parts.run()
    assert parts.batches == [32, 32, 32, 4]
    parts.batches.clear()
    file = parts.run().files[0]
    assert (file.status, file.chunks, parts.batches) == ("unchanged", 100, [])
    assert listed(parts)["long.md"].has_original
    assert left_in_spool(parts, job_id) == []


def test_a_file_that_ends_the_service_each_time_is_given_up(parts, monkeypatch):
    monkeypatch.setattr(ingesting, "MAX_BEGINNINGS", 3)
    parts.upload(("a.md", "# A\n\nDeadly."), ("b.md", "# B\n\nGood."))

    def end(connection, texts):
        if "Deadly" in texts[0]:
            raise SystemExit("as if it were killed")
        return connection.embed(texts)

    parts.embed = end
    for _ in range(3):
        with pytest.raises(SystemExit):
            parts.run()
    job = parts.run()
    assert outcomes(job) == [("failed", "unreadable"), ("done", None)]


def test_a_long_text_is_split_beside_the_questions(parts):
    split = []
    parts.split = lambda chunking, syntax, text: split.append(syntax) or chunking.splitter(syntax)(text)
    files = (("a.md", "# A\n\nShort."), ("long.md", LONG), ("long.py", "x = 1  # words\n" * 5_000))
    assert outcomes(parts.ingest(*files)) == [("done", None)] * 3
    assert split == ["markdown", "code"]


def test_originals_follow_their_documents_and_without_the_setting_an_earlier_one_goes(parts, tmp_path):
    def kept():
        return sorted(each.read_bytes() for each in (tmp_path / "originals").rglob("*") if each.is_file())

    parts.ingest(("a.md", "# A\n\nFirst."), ("b.md", "# B\n\nOther."))
    document, path = parts.documents.original(listed(parts)["a.md"].document_id, parts.collection)
    assert (path.read_bytes(), document.has_original) == (b"# A\n\nFirst.", True)
    parts.ingest(("a.md", "# A\n\nSecond."))
    assert kept() == [b"# A\n\nSecond.", b"# B\n\nOther."]
    parts.documents.delete(document.document_id, parts.collection)
    assert kept() == [b"# B\n\nOther."]
    parts.texts.corpus.open().provider.delete_collection(parts.collection)
    parts.documents.sweep_originals()
    assert kept() == []
    assert not any((tmp_path / "originals").iterdir())

    parts.ingest(("a.md", "# A\n\nFirst."))
    parts.work.originals = Originals(tmp_path / "originals", keeps=False)
    parts.ingest(("a.md", "# A\n\nSecond."))
    assert not listed(parts)["a.md"].has_original
    assert kept() == []


@pytest.mark.parametrize("name", ["a.md", "without a suffix"])
def test_a_file_that_is_gone_from_the_disk_has_failed(parts, name):
    job_id = parts.upload((name, "# Gone"), ("b.md", "# There"))
    parts.spool.path(job_id, 0).unlink()
    told = [("failed", "cannot be read: No such file or directory"), ("done", None)]
    assert [(each.status, each.message) for each in parts.run().files] == told


@pytest.mark.parametrize(("made_by", "stored"), [("an earlier job", 0), ("others", 1), ("the first file", 1)])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_files_follow_their_collection_and_do_not_make_it_again_when_it_is_deleted(
    parts, app, made_by, stored, is_deleted
):
    store, new_name = app.extensions["rag.service"].store, f"{parts.collection}-2"

    def change():
        if is_deleted:
            store.delete_collection(parts.collection)
        else:
            store.names.rename(parts.collection, new_name, WriteOptions())
            store.create_collection(parts.collection, {}, "cosine")

    if made_by == "an earlier job":
        parts.ingest(("first.md", "# First"))
    parts.upload(*((name, f"# Of {name}") for name in ("a.md", "b.md", "c.md")))
    if made_by == "an earlier job":
        change()
    elif made_by == "the first file":
        parts.record.stored = lambda job, chunks: job.files[0].name == "a.md" and change()
    else:
        parts.while_embedding(lambda: len(parts.batches) == 2 and change())
    if made_by == "others":
        store.create_collection(parts.collection, text_collection_metadata(parts.texts.embedding()), "cosine")
    lost = [("failed", "collection_not_found")] * (3 - stored) if is_deleted else [("done", None)] * (3 - stored)
    assert outcomes(parts.run()) == [("done", None)] * stored + lost
    left = {} if is_deleted else {parts.collection: 0, new_name: 4 - stored}
    assert {each.name: each.count for each in store.collections_named([parts.collection, new_name])} == left


def test_a_file_makes_no_collection_where_another_one_of_its_job_made_it_and_it_has_gone(parts):
    job_id = parts.upload(("a.md", "# Late"))
    parts.while_embedding(lambda: parts.jobs.follow(job_id, "gone"))
    assert outcomes(parts.run()) == [("failed", "collection_not_found")]
    assert parts.texts.id_of(parts.collection) is None


@pytest.mark.parametrize("earlier", [True, False])
def test_a_name_is_the_same_in_each_spelling(parts, monkeypatch, earlier):
    """Also where a release before 0.3 stored it under an id of that spelling."""
    decomposed, composed = "docs/mu\u0308sli.md", "docs/müsli.md"
    with monkeypatch.context() as patch:
        if earlier:
            patch.setattr(identity.unicodedata, "normalize", lambda form, name: name)
        writer = parts.texts.writer(parts.collection)
        given = GivenFile(decomposed, b"# Cereal\n\nOf oats.", kind_named("markdown"))
        chunking = chunking_of(RetrievalSettings(), parts.texts.embedding())
        with closing(DocumentReader()) as reader:
            ingest_file(writer, given, reader=reader, chunking=chunking)
    assert set(listed(parts)) == {decomposed}
    assert parts.ingest((composed, "# Cereal\n\nOf rye.")).files[0].status == "done"
    assert set(listed(parts)) == {composed}


@pytest.mark.parametrize("cancels", [True, False])
def test_a_job_says_which_page_is_recognised_ends_before_the_next_and_reads_no_scan_again(parts, monkeypatch, cancels):
    told = []

    def read(content, kind, *, name, on_page):
        for place in (1, 2):
            on_page(place, 2)
            [file] = parts.jobs.one(job_id, asker=Asker()).files
            told.append((file.status, file.warnings))
            if cancels:
                parts.jobs.cancel(job_id, asker=Asker())
        return Parsed("Of two pages.", warnings=["Text was recognised"], scanned=[1, 2])

    monkeypatch.setattr(parts.work, "reader", SimpleNamespace(read=read))
    embeds(parts, lambda texts: UnavailableError("Away") if len(parts.calls) == 1 else None)
    job_id = parts.upload(("scan.pdf", b"%PDF-"))
    if cancels:
        with pytest.raises(StoppedError):
            parts.run()
    else:
        assert parts.run().files[0].status == "queued"
        parts.now += ingesting.PAUSES_SECONDS[0]
        assert parts.run().files[0].warnings == ("Text was recognised",)
    assert told == [("reading", (f"Page {place} of 2 is being recognised",)) for place in (1, 2)][: 2 - cancels]
    assert parts.work.recognised == {}


def embeds(parts, fails=lambda texts: None):
    """Have each call noted in `calls`, after which it fails with what `fails` returns of its texts."""
    parts.calls = []

    def embed(connection, texts):
        parts.calls.append(texts)
        if (error := fails(texts)) is not None:
            raise error
        return connection.embed(texts)

    parts.embed = embed


def while_bad(texts):
    return UnavailableError("500 for a text") if any("BAD" in each for each in texts) else None


def test_a_text_that_fails_alone_delays_its_own_file_only_which_fails_after_two_tries_and_names_the_chunk(parts):
    parts.upload(("bad.md", LONG.replace("Words of part 44", "BAD of part 44")), ("good.md", "# Good\n\nWords."))
    parts.upload(("other.md", "# Other\n\nWords."))
    noticed = []
    embeds(parts, lambda texts: (noticed.append(parts.jobs.failed_texts()), while_bad(texts))[1])
    assert [each.status for each in parts.run().files] == ["done"]
    bad, good = parts.jobs.page(asker=Asker(), limit=2)[0][1].files
    assert (bad.status, bad.code, bad.tries, good.status) == ("queued", "text_not_embedded", 1, "done")
    assert parts.outcomes == [Outcome.NOTHING, Outcome.STORED, Outcome.STORED]
    parts.calls.clear()
    noticed.clear()
    parts.now += 2
    parts.run()
    bad = parts.jobs.page(asker=Asker(), limit=2)[0][1].files[0]
    assert (bad.status, bad.code) == ("failed", "text_not_embedded")
    assert bad.message.startswith("Chunk 45 (“# Part 44 BAD of part 44. BAD of part 44.")
    assert bad.message.endswith("…”) cannot be embedded: 500 for a text")
    assert {*map(tuple, [*noticed, parts.jobs.failed_texts()])} == {(parts.collection,)}
    assert len(parts.calls) == 1 + 2 + 7, "the batch, probes, and parts down to the text alone"


def test_a_service_that_takes_few_texts_at_a_time_is_asked_for_ever_fewer(parts):
    embeds(parts, lambda texts: UnavailableError("429", error_type="rate_limit") if len(texts) > 2 else None)
    job_id = parts.upload(("long.md", LONG))
    for _ in range(4):
        parts.run()
        parts.now += 60
    assert [each.status for each in parts.jobs.one(job_id, asker=Asker()).files] == ["done"]
    assert list(map(len, parts.calls)) == [32, 32, 8, *[2] * 50]


def test_a_text_that_is_refused_or_whose_vector_has_no_direction_is_named_at_once(parts):
    bad = ("bad.md", LONG.replace("Words of part 44", "BAD of part 44"))
    embeds(parts, lambda texts: InvalidInputError("is refused", index=12) if "BAD" in str(texts) else None)
    [refused] = parts.ingest(bad).files
    assert len(parts.calls) == 2
    parts.embed = lambda connection, texts: connection.embed(texts) * np.float32([["BAD" not in one] for one in texts])
    for file, code in (refused, "invalid_input"), (parts.ingest(bad).files[0], "zero_vector"):
        assert (file.status, file.code, file.message[:25]) == ("failed", code, "Chunk 45 (“# Part 44 BAD ")


def test_a_file_of_more_texts_than_a_service_takes_a_minute_is_stored_in_as_many_tries_as_that_takes(
    parts, monkeypatch
):
    monkeypatch.setattr(ingesting, "PAUSES_SECONDS", (1,))
    parts.upload(("long.md", LONG))
    embeds(parts, lambda _: None if len(parts.calls) % 2 else UnavailableError("Busy", error_type="rate_limit"))
    while (file := parts.run().files[0]).status == "queued":
        parts.now += 1
    accepted = [text for texts in parts.calls[::2] for text in texts]
    assert (file.status, file.chunks, len(accepted), len(parts.calls)) == ("done", 100, len({*accepted}), 7)


@pytest.mark.parametrize(
    ("error", "tries", "calls"),
    [
        (UnavailableError("It is asleep"), 4, 8),
        (UnavailableError("It is asleep", error_type="rate_limit"), 4, 4),
        (ConfigurationError("The key is wrong"), 1, 1),
    ],
)
def test_what_never_passes_has_failed_in_the_end_and_a_wrong_configuration_at_once(
    parts, monkeypatch, error, tries, calls
):
    monkeypatch.setattr(ingesting, "PAUSES_SECONDS", (7, 8, 9))
    parts.upload(("a.md", "# A\n\nShort."))
    embeds(parts, lambda texts: type(error)(error.message, **error.details))
    outcomes_of_tries = []
    for pause_seconds in (7, 8, 9, 10):
        file = parts.run().files[0]
        outcomes_of_tries += parts.outcomes
        parts.now += pause_seconds - 1
        assert parts.jobs.due() == []
        parts.now += 1
    assert (parts.run().status, file.status) == ("failed", "failed")
    assert (len(outcomes_of_tries), len(parts.calls)) == (tries, calls)
    assert tries == 1 or (file.code, file.message) == ("embedding_unavailable", "It is asleep")
    assert set(outcomes_of_tries) == {Outcome.NOTHING if tries == 1 else Outcome.CONNECTION_FAILS}


def test_a_later_file_of_the_same_document_waits_for_the_earlier_one_and_no_other_does(parts):
    embeds(parts, while_bad)
    parts.upload(("a.md", "# A\n\nBAD at first."))
    parts.run()
    parts.upload(("a.md", "# A\n\nLater."), ("b.md", "# B\n\nLater."))
    assert [each.status for each in parts.run().files] == ["queued", "done"]
    embeds(parts)
    parts.now += 1
    assert [each.status for each in parts.run().files] == ["done", "done"]
    assert [texts[0] for texts in parts.calls] == ["# A\n\nBAD at first.", "# A\n\nLater."]


def test_documents_are_embedded_by_the_connection_of_their_collection_whatever_that_is_called_now(parts, app):
    now = f"{parts.collection}-2"
    app.extensions["rag.service"].store.create_collection(now, {"embedding_connection": "own"}, "cosine")
    places = [(parts.texts.id_of(now), parts.collection), (None, parts.collection), ("gone", now), (None, now)]
    assert list(parts.texts.connections_of(places).values()) == ["own", "default", "default", "own"]
