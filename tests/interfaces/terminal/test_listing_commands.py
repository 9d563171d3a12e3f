"""`rag-wrapper collections`, `documents` and `status`."""

import json
import re

import pytest


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
    from click.testing import CliRunner

    from interfaces.cli import main

    for options in (("--url", "http://127.0.0.1:1"), ("--data-dir", str(tmp_path))):
        result = CliRunner().invoke(main, [command, *options])
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("Error: ")
