"""The command as a process of its own, as a user runs it, between two collections of the live service."""

import signal
import subprocess

import pytest

from interfaces.commands.work import mirroring as command
from retrieval.mirroring import SourceMissingError, Step
from schemas.errors import ConfigurationError, RagError, UnavailableError
from tests.interfaces.conftest import environ
from tests.support.commands import RUN_MAIN
from tests.support.live import PATIENCE_SECONDS, eventually


@pytest.fixture
def filled(live, session, collection):
    """A collection with two documents of another than the default metric."""
    made = {"name": collection, "metric": "l2", "metadata": {"language": "en"}}
    assert session.post(f"{live.url}/collections", json=made).status_code == 201
    documents = [{"id": each, "text": f"text of {each}", "embedding": [1, 2], "uri": "a:b"} for each in "ab"]
    added = session.post(f"{live.url}/collections/{collection}/documents", json={"documents": documents})
    assert added.status_code in (201, 202)
    return collection


@pytest.fixture
def exported(live, session):
    return lambda name: sorted(session.get(f"{live.url}/collections/{name}/export").content.splitlines())


def test_a_copy_is_made_and_brought_up_to_date(run_live, live, session, filled, exported):
    copy = f"{filled}-copy"
    first = run_live("mirror", live.url, filled, "--as", copy, "--once")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == f"{copy}: 2 stored: up to revision 2\n"
    assert exported(copy) == exported(filled)
    made = session.get(f"{live.url}/collections/{copy}").json()
    mark = made["metadata"].pop("mirror")
    assert (made["metric"], made["metadata"]) == ("l2", {"language": "en"})
    assert (mark["url"], mark["collection"], mark["next"]) == (live.url, filled, 2)
    assert session.delete(f"{live.url}/collections/{filled}/documents", json={"ids": ["a"]}).status_code == 200
    again = run_live("mirror", f"{live.url}/", filled, "--as", copy, "--once")
    assert (again.returncode, again.stdout) == (0, f"{copy}: 1 deleted: up to revision 3\n")
    assert exported(copy) == exported(filled)
    before = session.get(f"{live.url}/collections/{copy}").json()
    nothing = run_live("mirror", live.url, filled, "--as", copy, "--once")
    assert (nothing.returncode, nothing.stdout) == (0, f"{copy}: nothing changed: up to revision 3\n")
    assert session.get(f"{live.url}/collections/{copy}").json() == before


def test_a_collection_of_another_database_is_copied(run_live, live, session, filled, exported):
    tenant = f"t-{filled}"
    copied = run_live("mirror", live.url, filled, "--as", f"/{tenant}/main/copy", "--once")
    assert (copied.returncode, copied.stderr) == (0, "")
    back = run_live("mirror", live.url, f"/{tenant}/main/copy", "--as", f"{filled}-back", "--once")
    assert (back.returncode, back.stderr) == (0, "")
    assert exported(f"{filled}-back") == exported(filled)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere-at-all",), "Collection 'nowhere-at-all' not found"),
        (("FILLED",), "is the collection to be copied"),
        (("FILLED", "--as", "no/name"), "name"),
    ],
)
def test_what_cannot_be_copied_is_said(run_live, live, filled, arguments, sentence):
    named = [filled if each == "FILLED" else each for each in arguments]
    refused = run_live("mirror", live.url, *named, "--once")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr


def test_it_follows_until_it_is_stopped(live, session, filled, exported, tmp_path):
    copy = f"{filled}-copy"
    log = tmp_path / "mirror.log"
    line = [*RUN_MAIN, "mirror", live.url, filled, "--as", copy, "--url", live.url]
    with log.open("wb") as output:
        process = subprocess.Popen(line, env=environ(), stdout=output, stderr=output)
    try:
        eventually(lambda: f"{copy}: 2 stored" in log.read_text(), complaint=log.read_text)
        assert session.delete(f"{live.url}/collections/{filled}/documents", json={"ids": ["b"]}).status_code == 200
        eventually(lambda: f"{copy}: 1 deleted" in log.read_text(), complaint=log.read_text)
        assert exported(copy) == exported(filled)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    assert log.read_text().endswith(f"{copy}: stopped\n")


class Scripted:
    """A mirror whose steps end as they are told to, and which is then interrupted."""

    def __init__(self, *script):
        self.script, self.waits = list(script), []

    def step(self, wait_seconds=0):
        self.waits.append(wait_seconds)
        if not self.script:
            raise KeyboardInterrupt
        outcome = self.script.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def followed(copy):
    pauses = []
    with pytest.raises(KeyboardInterrupt):
        command._follow(copy, "copy", pauses.append)
    return pauses


def test_what_fails_in_passing_is_tried_again_after_growing_pauses(capsys):
    away = UnavailableError("The service cannot be reached")
    copy = Scripted(away, away, SourceMissingError("library"), Step(2, more=True), RagError("fault"), Step(1, 1, 0, 7))
    assert followed(copy) == [1.0, 2.0, 4.0, 1.0]
    assert copy.waits == [0, 0, 0, 0, 0, 0, command.WAIT_SECONDS]
    told = capsys.readouterr()
    assert told.out == "copy: 3 stored, 1 deleted: up to revision 7\n"
    assert told.err.splitlines() == [
        "copy: The service cannot be reached: tried again",
        "copy: Collection 'library' not found: tried again",
        "copy: fault: tried again",
    ]


def test_nothing_is_said_while_nothing_changes_and_what_an_operator_has_to_change_ends_it(capsys):
    followed(Scripted(Step(revision=3), Step(revision=3), Step(revision=3)))
    assert capsys.readouterr().out == "copy: nothing changed: up to revision 3\n"
    with pytest.raises(ConfigurationError):
        command._follow(Scripted(ConfigurationError("The key is unknown")), "copy")
