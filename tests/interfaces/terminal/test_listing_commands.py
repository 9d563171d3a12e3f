"""`rag-wrapper collections`, `documents` and `status`. The same output on terminals of all kinds, in pipes that close and when Ctrl-C is pressed."""

import json
import os
import pty
import re
import signal
import subprocess

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from providers.contract_tests.stub_server import serving
from tests.support.commands import RUN_MAIN
from tests.support.live import PATIENCE_SECONDS, eventually


@pytest.fixture
def stored(client, upload, collection):
    for path in ("a", "b"):
        upload(collection, f"wiki/{path}.md", f"# {path.upper()}\n\nWords.", tags=f"tag-{path}")
    yield collection
    client.delete(f"/collections/{collection}")


@pytest.mark.slow
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
    assert re.match(r"service +healthy, version \S+ at http", result.stdout)
    assert {"engine", "catalogue", "collections", "disk"} <= {line.split()[0] for line in result.stdout.splitlines()}
    report = json.loads(run("status", "--json").stdout)
    assert set(report) == {"service", "health", "watchers", "jobs"}
    assert report["jobs"] is not None


@pytest.mark.parametrize("command", ["collections", "documents", "status", "load", "watch", "delete", "check"])
def test_without_a_service_the_sentence_says_how_to_start_one(command, tmp_path):
    (tmp_path / "a.md").write_text("a")
    named = {"load": [tmp_path], "watch": [tmp_path, "--once"], "delete": ["a.md"], "check": ["docs"]}.get(command, [])
    environ = {"RAG_DATA_DIR": str(tmp_path / "data"), "RAG_PORT": "1"}
    result = CliRunner().invoke(main, [command, *map(str, named)], env=environ)
    sentence = "start one with 'rag-wrapper serve', or name another by --url"
    assert (result.exit_code, result.stderr) == (2, f"Error: No service answers at http://127.0.0.1:1: {sentence}\n")
    assert not (tmp_path / "data").exists()


HIT = {
    "doc_id": "d",
    "collection": "c",
    "chunk_id": "c-0",
    "content": "Backups run \x1b[31mevery\x07 night – “always”.",
    "score": 1.0,
    "relevance": 0.97,
    "rrf_score": 0.03,
    "sources": ["lexical"],
    "provenance": {"lexical": {"rank": 1, "score": 0.5}},
    "metadata": {"source": "guide.md", "title": "Guide", "section": "Guide > Backups", "start_line": 7},
}
RECEIPT = {"oracles": {}, "fusion": "smoothed", "collections": {"c": {"status": "asked"}}, "below_min_relevance": 0}


@pytest.fixture
def service():
    with serving() as stub:
        yield stub


def answer(*hits):
    return 200, {"Content-Type": "application/json"}, json.dumps({"results": hits, "receipt": RECEIPT}).encode()


def environ(**more):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RAG_", "LC_", "LANG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"))
    }
    return {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more}


def on_a_terminal(service, folder, columns="80", **more):
    """Return what a search writes to a terminal."""
    leader, follower = pty.openpty()
    line = [*RUN_MAIN, "search", "when do backups run", "--url", service.url]
    process = subprocess.Popen(
        line, stdin=follower, stdout=follower, stderr=follower, env=environ(COLUMNS=columns, **more), cwd=folder
    )
    os.close(follower)
    written = b""
    try:
        while part := os.read(leader, 65536):
            written += part
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(leader)
    assert process.wait(PATIENCE_SECONDS) == 0, written
    return written.decode()


@pytest.mark.slow
def test_words_are_marked_and_files_are_linked(service, tmp_path):
    (tmp_path / "guide.md").write_text("here")
    service.answer = answer(HIT)
    shown = on_a_terminal(service, tmp_path)
    assert re.search(r"\x1b\[1;33mBackups\x1b\[0m", shown)
    assert f";{(tmp_path / 'guide.md').as_uri()}\x1b\\" in shown
    assert "\x1b[31m" not in shown, "a text commands the terminal"
    assert "\x07" not in shown


@pytest.mark.slow
def test_no_colour_where_nobody_wants_it_and_no_link_where_no_file_is(service, tmp_path):
    service.answer = answer(HIT)
    shown = on_a_terminal(service, tmp_path, NO_COLOR="1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", shown)
    assert "file://" not in shown


@pytest.mark.slow
def test_narrow_terminals_wrap_between_words(service, tmp_path):
    service.answer = answer({**HIT, "content": "several words that do not fit into a line"})
    shown = re.sub(r"\x1b\[[\d;]*m", "", on_a_terminal(service, tmp_path, columns="24")).splitlines()
    assert "    several words that" in [line.rstrip() for line in shown]
    assert all(len(line) <= 24 for line in shown if line.startswith("    "))


@pytest.mark.slow
def test_what_the_encoding_lacks_is_a_question_mark(service):
    service.answer = answer(HIT)
    line = [*RUN_MAIN, "search", "backups", "--url", service.url]
    in_ascii = environ(LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    done = subprocess.run(line, capture_output=True, timeout=PATIENCE_SECONDS, check=False, env=in_ascii)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"guide.md:7  Guide ? Backups  97%\n    Backups run [31mevery night ? ?always?.\n"


@pytest.mark.slow
def test_a_pipe_that_closes_ends_the_command_without_a_word(service):
    service.answer = answer(*[{**HIT, "content": "word " * 2_000}] * 100)
    line = [*RUN_MAIN, "search", "backups", "--full", "--url", service.url]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
    assert process.stdout.readline().startswith(b"guide.md:7")
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(PATIENCE_SECONDS), said) == (141, b"")


@pytest.mark.slow
@pytest.mark.parametrize("command", [("search", "x"), ("documents",)])
def test_ctrl_c_ends_the_command_without_a_word(service, command):
    service.answer = None
    process = subprocess.Popen(
        [*RUN_MAIN, *command, "--url", service.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ()
    )
    eventually(lambda: service.requests)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, said) == (130, b"", b"")
