"""The command as a process of its own, as a user runs it, against stub services. What a load stores is tested with
`retrieval.ingest.loading`."""

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

from interfaces.service_address import service_url
from tests.interfaces.conftest import environ
from tests.retrieval.stub_service import StubService, running
from tests.support.commands import RUN_MAIN, run_command
from tests.support.live import PATIENCE_SECONDS

GUIDE = "# Guide\n\nHow to start.\n\n## Install\n\nPut it there.\n"


@pytest.fixture
def service():
    with running(StubService()) as service:
        yield service


@pytest.fixture
def settings(service):
    return {
        "embedding_provider": "openai",
        "embedding_url": service.url + "/v1",
        "embedding_model": "letters-1",
        "embedding_api_key": "the-key",
        "port": service.url.rsplit(":", 1)[1],
    }


@pytest.fixture
def load(settings):
    return lambda *arguments, **more: run_command("load", *arguments, **settings, **more)


def test_loading_twice_says_what_was_done_and_then_that_nothing_changed(load, service, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / "note.txt").write_text("A note.")
    first = load(tmp_path, "--collection", "docs")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "docs: 3 chunks from 2 files: 3 created\n"
    again = load(tmp_path, "--collection", "docs", "--connection", "default")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "nothing changed: 3 chunks from 2 files are already there\n"
    metadata = service.store.collection("docs")["metadata"]
    assert (metadata["embedding_provider"], metadata["embedding_model"]) == ("openai", "letters-1")
    embeddings = [request for request in service.requests if request["path"] == "/v1/embeddings"]
    assert {request["headers"]["Authorization"] for request in embeddings} == {"Bearer the-key"}
    other = load(tmp_path, "--collection", "docs", "--embedding-model", "letters-2")
    assert (other.returncode, other.stderr.count("\n"), "letters-2" in other.stderr) == (2, 1, True)


@pytest.mark.slow
def test_options_and_settings_say_where_files_go_and_how_they_are_split(load, service, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE + "More of it. " * 20)
    for arguments, more, collection, chunks in (
        ((), {}, "rag-documents", 2),
        ((), {"chunking": "Whole", "documents_collection": "whole"}, "whole", 1),
        (("--collection", "sections", "--profile", "sections"), {"chunking": "whole"}, "sections", 2),
        (("--collection", "short", "--profile", "windows", "--max-tokens", 16), {}, "short", 8),
    ):
        done = load(tmp_path, *arguments, **more)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(service.store.stored[collection]) == chunks, collection


def test_what_is_in_error_or_passed_over_is_named_and_only_errors_are_exit_code_1(load, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / ".hidden.md").write_text("hidden")
    (tmp_path / "red\x1b[31m\n.png").write_bytes(b"x")
    done = load(tmp_path, "--collection", "docs")
    assert (done.returncode, done.stdout) == (0, "docs: 2 chunks from 1 file: 2 created, 2 passed over\n")
    hidden, picture = done.stderr.splitlines()
    assert hidden.startswith(f"passed over: {tmp_path.name}/.hidden.md: ")
    assert picture.startswith(f"passed over: {tmp_path.name}/red\ufffd[31m\ufffd.png: ")
    (tmp_path / "b.jsonl").write_text('{"text": "good"}\nbad\n')
    with (tmp_path / "large.md").open("wb") as file:
        file.truncate(2 * 1024 * 1024)
    done = load(tmp_path, "--collection", "docs", "--max-file-mb", 1)
    assert done.returncode == 1
    assert done.stdout == "docs: 3 chunks from 2 files: 1 created, 2 unchanged, 2 passed over, 2 failed\n"
    named = {line.partition(": ")[0] for line in done.stderr.splitlines()}
    assert named >= {f"{tmp_path.name}/large.md", f"{tmp_path.name}/b.jsonl:2"}


@pytest.mark.parametrize(("name", "returncode"), [("b.jsonl", 1), ("pictures", 0)])
def test_of_many_the_first_are_named_and_all_when_asked(load, tmp_path, name, returncode):
    (tmp_path / "guide.md").write_text(GUIDE)
    if name == "b.jsonl":
        (tmp_path / name).write_text("bad\n" * 60)
    for number in range(60 if name == "pictures" else 0):
        (tmp_path / f"{number}.png").write_bytes(b"x")
    few, all_of_them = load(tmp_path), load(tmp_path, "--verbose")
    assert (few.returncode, all_of_them.returncode) == (returncode, returncode)
    assert [len(each.stderr.splitlines()) for each in (few, all_of_them)] == [51, 60]


def test_a_load_gives_way_unless_at_full_speed(tmp_path):
    probe = "import os; from interfaces.commands.priority import give_way as g; g(); print(os.nice(0))"
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert int(shown.stdout) == min(19, os.nice(0) + 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--url", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
        (["--collection", "x"], "Collection name"),
        (["--embedding-provider", "psychic"], "'psychic'"),
        (["--embedding-url", "http://127.0.0.1:1/v1"], "embedding service"),
        (["--connection", "mine"], "--connection"),
        (["--max-tokens", "3"], "--max-tokens"),
        (["missing"], "missing"),
        (["empty"], "empty"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_2(load, tmp_path, arguments, named):
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / "empty").mkdir()
    options = {"--collection": "docs"} | (dict([arguments]) if len(arguments) == 2 else {})
    done = load(tmp_path / arguments[0] if len(arguments) == 1 else tmp_path, *sum(options.items(), ()))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert named in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_progress_is_drawn_on_a_terminal_only_and_off_stdout(settings, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    leader, follower = pty.openpty()
    command = (*RUN_MAIN, "load", str(tmp_path), "--collection", "docs")
    shown = environ(**settings) | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=shown)
    os.close(follower)
    drawn = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(leader, 1 << 16):
            drawn += part
    os.close(leader)
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert said == b"docs: 2 chunks from 1 file: 2 created\n"
    assert b"100%" in drawn
    assert b"2 chunks" in drawn


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:5006"),
        ({"RAG_HOST": "", "RAG_PORT": ""}, "http://127.0.0.1:5006"),
        ({"RAG_HOST": "0.0.0.0", "RAG_PORT": "80"}, "http://127.0.0.1:80"),
        ({"RAG_HOST": "::"}, "http://[::1]:5006"),
        ({"RAG_HOST": "rag.example"}, "http://rag.example:5006"),
    ],
)
def test_the_service_is_where_its_settings_say(settings, url):
    assert service_url(settings) == url
