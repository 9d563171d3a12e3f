"""What becomes of a job's files when something of the work fails."""

from collections import Counter

from retrieval.jobs import ingesting
from schemas.access.owners import Asker
from schemas.errors import ConfigurationError, UnavailableError


def test_a_failure_that_may_pass_is_waited_for(parts, monkeypatch):
    monkeypatch.setattr(ingesting, "PAUSES_SECONDS", (0, 0, 0))
    parts.upload(("a.md", "# A\n\nShort."))
    seen = Counter()

    def fail_twice():
        file = parts.jobs.page(asker=Asker(), limit=1)[0][0].files[0]
        seen[file.status, file.code] += 1
        if len(parts.batches) < 3:
            raise UnavailableError("It is asleep")

    parts.while_embedding(fail_twice)
    file = parts.run().files[0]
    assert (file.status, file.code, file.message, seen) == ("done", None, None, {("embedding", None): 3})


def test_what_never_passes_has_failed_in_the_end(parts, monkeypatch):
    monkeypatch.setattr(ingesting, "PAUSES_SECONDS", (0, 0, 0))
    parts.upload(("a.md", "# A\n\nShort."))

    def fail(connection, texts):
        raise UnavailableError("It is asleep")

    parts.embed = fail
    job = parts.run()
    assert (job.status, job.files[0].status, job.files[0].code) == ("failed", "failed", "embedding_unavailable")
    assert job.files[0].message == "It is asleep"
    assert len(parts.batches) == 4


def test_a_wrong_configuration_is_not_waited_for(parts):
    parts.upload(("a.md", "# A\n\nShort."))

    def fail(connection, texts):
        raise ConfigurationError("The key is wrong")

    parts.embed = fail
    assert (parts.run().files[0].status, len(parts.batches)) == ("failed", 1)


def test_a_defect_fails_one_file_and_says_nothing_of_itself(parts):
    parts.upload(("a.md", "# A\n\nShort."), ("b.md", "# B\n\nShort."))

    def break_once():
        if len(parts.batches) == 1:
            raise ZeroDivisionError("/secret/path")

    parts.while_embedding(break_once)
    job = parts.run()
    assert [(each.status, each.code) for each in job.files] == [("failed", "internal_error"), ("done", None)]
    assert job.files[0].message == "Internal error"
