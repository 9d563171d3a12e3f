"""`rag-wrapper collections`, `documents` and `status`; and that commands answer alike from a service and from its data
directory alone."""

import json
import re

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from interfaces.terminal import services
from schemas.errors import ConfigurationError
from tests.support.commands import run_command
from tests.support.live import start_service

ASKED = (("search", "when do backups run?", "--json"), ("documents",))
UNHURRIED = {"retrieve_seconds": 100}
"""A busy machine may take long to load the model; an oracle that is late is missing in an answer."""


@pytest.fixture
def stored(client, upload, collection):
    for path in ("a", "b"):
        upload(collection, f"wiki/{path}.md", f"# {path.upper()}\n\nWords.", tags=f"tag-{path}")
    yield collection
    client.delete(f"/collections/{collection}")


def test_collections_are_rows_with_tabs_in_a_pipe(run, stored):
    rows = [line.split("\t") for line in run("collections").stdout.splitlines()]
    assert [stored, "2", "384", "cosine", "all-MiniLM-L6-v2"] in rows
    listed = json.loads(run("collections", "--json").stdout)["collections"]
    assert stored in [each["name"] for each in listed]


def test_documents_are_listed_and_filtered(run, stored):
    rows = [line.split("\t") for line in run("documents", "--collection", stored).stdout.splitlines()]
    assert [(row[0], row[2], row[3], row[4], row[6]) for row in rows] == [
        ("wiki/a.md", "A", "1", "tag-a", stored),
        ("wiki/b.md", "B", "1", "tag-b", stored),
    ]
    tagged = run("documents", "--collection", stored, "--tag", "tag-b", "--json")
    assert [each["title"] for each in json.loads(tagged.stdout)["documents"]] == ["B"]
    assert run("documents", "--collection", stored, "--kind", "pdf").stdout == ""
    some = run("documents", "--collection", stored, "--limit", 1)
    assert some.stderr == "1 of 2 documents; --limit shows more\n"


def test_the_status_says_how_all_parts_are(run, app):
    result = run("status")
    assert result.exit_code == 0
    assert re.match(r"service +none runs; this is the data directory data\n", result.stdout)
    assert {"catalogue", "collections", "disk"} <= {line.split()[0] for line in result.stdout.splitlines()}
    report = json.loads(run("status", "--json").stdout)
    assert set(report) == {"service", "runs", "health", "watchers", "jobs"}
    assert report["jobs"] is not None


@pytest.mark.parametrize("command", ["collections", "documents", "status"])
def test_what_cannot_be_reached_is_one_sentence(command, tmp_path):
    for options in (("--url", "http://127.0.0.1:1"), ("--data-dir", str(tmp_path / "nothing"))):
        result = CliRunner().invoke(main, [command, *options])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert result.stderr.startswith("Error: ")
    assert not (tmp_path / "nothing").exists()


def test_without_a_service_and_data_the_sentence_names_both(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", "1")
    with (
        pytest.raises(ConfigurationError, match=r"No service answers at http://127\.0\.0\.1:1, and no data is in"),
        services.service_to_ask(None, None),
    ):
        pass


def shown(command, data_dir):
    done = run_command(*command, "--data-dir", data_dir, **UNHURRIED)
    if "--json" not in command:
        return done.returncode, done.stdout, done.stderr
    answer = json.loads(done.stdout)
    for oracle in answer["receipt"]["oracles"].values():
        oracle.pop("latency_ms", None)
    return done.returncode, answer, done.stderr


def test_a_service_and_its_data_directory_answer_alike(tmp_path, processes):
    service = start_service(tmp_path, workers=1, **UNHURRIED)
    try:
        body = {"source": "wiki", "path": "/b", "title": "Backups", "text": "Backups run every night."}
        with service.session() as session:
            assert session.post(f"{service.url}/api/rag/ingest", json=body).status_code == 200
        served = [shown(command, service.data_dir) for command in ASKED]
        assert "healthy, version" in shown(("status",), service.data_dir)[1]
    finally:
        service.stop()
    alone = [shown(command, service.data_dir) for command in ASKED]
    assert alone == served
    assert [each[0] for each in alone] == [0] * len(ASKED)
