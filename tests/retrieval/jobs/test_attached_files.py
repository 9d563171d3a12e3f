"""Kept files on their way into a collection, and what becomes of them when clients change their minds."""

import hashlib

import pytest

from retrieval.ingest.collection_writer import text_collection_metadata
from retrieval.jobs.ingesting import StoppedError
from schemas.access.owners import Asker
from schemas.contracts.jobs import WAITING, JobNotFoundError, SpooledFile, Wanted

ANYBODY, NOBODY = Asker(), Asker("nobody", reach="nothing")


@pytest.fixture
def attached(parts, app, tmp_path):
    """All that works on jobs, with a collection that is there; `attach(name=text, …)` returns the id of a job."""
    store = app.extensions["rag.service"].store
    store.create_collection(parts.collection, text_collection_metadata(parts.texts.embedding()), "cosine")
    parts.collection_id = store.collection(parts.collection).id
    parts.store = store

    def attach(collection_id=None, asker=ANYBODY, **texts):
        with parts.spool.begin() as arriving:
            for name, text in texts.items():
                kept = tmp_path / f"{name}.kept"
                kept.write_text(text)
                told = f"file-{name}", f"file-{name}/{name}.md"
                digest = hashlib.sha256(text.encode()).hexdigest()
                arriving.link(kept, SpooledFile(7, f"{name}.md", "text/markdown", len(text), digest, *told))
            job = arriving.job_id, Wanted(parts.collection), arriving.files
            parts.jobs.create(*job, asker=asker, collection_id=collection_id or parts.collection_id)
            arriving.is_kept = True
        parts.job_ids.append(arriving.job_id)
        return arriving.job_id

    def unstored():
        found = parts.jobs.last(parts.collection_id, asker=ANYBODY)
        return [(file.file_id, each.status in WAITING, file.status) for each in found for file in each.files]

    parts.attach, parts.unstored = attach, unstored
    return parts


def count(attached):
    return attached.store.collection(attached.collection).count


def test_what_is_stored_is_not_told_any_more_and_the_last_job_of_a_file_counts(attached):
    attached.attach(a="Some words.", b="")
    assert attached.unstored() == [("file-a", True, "queued"), ("file-b", True, "queued")]
    assert attached.jobs.last(attached.collection_id, asker=NOBODY) == []
    attached.run()
    assert attached.unstored() == [("file-b", False, "failed")]
    assert attached.jobs.last(attached.collection_id, "file-a", asker=ANYBODY)[0].files[0].status == "done"
    assert count(attached) == 1
    attached.attach(b="Other words.")
    assert attached.unstored() == [("file-b", True, "queued")]
    attached.run()
    assert attached.unstored() == []


def test_a_file_is_where_its_last_job_is_whoever_attached_it_before(attached):
    attached.attach(a="Some words.", b="Other words.")
    attached.attach(b="New words.")
    attached.attach(asker=NOBODY, a="Some words.")
    assert attached.unstored() == [("file-b", True, "queued")]
    assert attached.jobs.last(attached.collection_id, "file-a", asker=ANYBODY) == []
    [latest] = attached.jobs.last(attached.collection_id, "file-a", asker=NOBODY)
    assert latest.files[0].size_bytes == len("Some words.")
    assert attached.jobs.last(attached.collection_id, "file-c", asker=ANYBODY) == []


def test_a_file_that_is_taken_back_is_passed_over_and_those_of_a_collection_that_is_gone(attached):
    job_id = attached.attach(a="Some words.", b="Other words.")
    attached.jobs.take_back("file-a", "another collection", asker=ANYBODY)
    attached.jobs.take_back("file-a", attached.collection_id, asker=NOBODY)
    assert len(attached.unstored()) == 2
    attached.jobs.take_back("file-a", attached.collection_id, asker=ANYBODY)
    assert [each.name for each in attached.run().files] == ["b.md"]
    assert count(attached) == 1
    attached.jobs.take_back("file-b", asker=ANYBODY)
    lost_id, uploaded = attached.attach(a="Some words."), attached.upload(("b.md", "Other words."))
    attached.jobs.forget_collection(attached.collection_id)
    assert (attached.unstored(), [each.job_id for each in attached.jobs.due()]) == ([], [uploaded])
    for each in (job_id, lost_id):
        with pytest.raises(JobNotFoundError):
            attached.jobs.one(each, asker=ANYBODY)


def test_a_file_that_is_taken_back_while_it_is_read_leaves_nothing(attached):
    attached.attach(a="Some words.", b="Other words.")
    attached.while_embedding(lambda: attached.jobs.take_back("file-a", attached.collection_id, asker=ANYBODY))
    with pytest.raises(StoppedError):
        attached.run()
    assert count(attached) == 0
    assert [each.name for each in attached.run().files] == ["b.md"]
    assert count(attached) == 1


def test_a_later_collection_of_the_same_name_gets_nothing_nor_does_one_that_goes_as_a_file_is_embedded(attached):
    attached.attach(collection_id="11111111-2222-4333-8444-555555555555", a="Some words.")
    [file] = attached.run().files
    assert (file.status, file.code) == ("failed", "collection_not_found")
    assert count(attached) == 0
    attached.attach(a="Some words.")
    attached.while_embedding(lambda: attached.store.delete_collection(attached.collection))
    [file] = attached.run().files
    assert (file.status, file.code) == ("failed", "collection_not_found")
    assert not attached.store.collections_named([attached.collection])


def test_where_a_disk_has_no_other_names_a_copy_is_taken(attached, tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", no_links)
    job_id = attached.attach(a="Some words.")
    assert attached.spool.path(job_id, 0).read_text() == "Some words."
    file = attached.jobs.one(job_id, asker=ANYBODY).files[0]
    assert (file.name, file.file_id) == ("a.md", "file-a")
