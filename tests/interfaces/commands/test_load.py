"""The command as a process of its own, as a user runs it, against stub services."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from interfaces.service_address import service_url
from tests.retrieval.stub_service import StubService, running
from tests.support.commands import RUN_MAIN

GUIDE = "# Guide\n\nHow to start.\n\n## Install\n\nPut it there.\n"


@pytest.fixture
def service():
    with running(StubService()) as service:
        yield service


@pytest.fixture
def run(service, monkeypatch):
    for name in [name for name in os.environ if name.startswith("RAG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RAG_EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("RAG_EMBEDDING_URL", service.url + "/v1")
    monkeypatch.setenv("RAG_EMBEDDING_MODEL", "letters-1")
    monkeypatch.setenv("RAG_EMBEDDING_API_KEY", "the-key")
    monkeypatch.setenv("RAG_PORT", service.url.rsplit(":", 1)[1])

    def run(*arguments, **options):
        command = (*RUN_MAIN, *map(str, arguments))
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)

    return run


def test_loading_twice_says_what_was_done_and_then_that_nothing_changed(run, service, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / "note.txt").write_text("A note.")
    first = run("load", tmp_path, "--collection", "docs")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == "docs: 3 chunks from 2 files: 3 created\n"
    again = run("load", tmp_path, "--collection", "docs", "--connection", "default")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == "nothing changed: 3 chunks from 2 files are already there\n"
    metadata = service.store.collection("docs")["metadata"]
    assert (metadata["embedding_provider"], metadata["embedding_model"]) == ("openai", "letters-1")
    embeddings = [request for request in service.requests if request["path"] == "/v1/embeddings"]
    assert {request["headers"]["Authorization"] for request in embeddings} == {"Bearer the-key"}


def test_the_profile_says_how_files_are_split(run, service, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    for profile, chunks in (("whole", 1), ("windows", 1), ("sections", 2)):
        result = run("load", tmp_path, "--collection", f"by-{profile}", "--profile", profile)
        assert (result.returncode, result.stderr) == (0, "")
        assert len(service.store.stored[f"by-{profile}"]) == chunks
    (tmp_path / "guide.md").write_text(GUIDE + "More of it. " * 20)
    run("load", tmp_path, "--collection", "short", "--profile", "windows", "--max-tokens", "16")
    assert len(service.store.stored["short"]) > 2


def test_a_changed_file_is_swapped(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    run("load", tmp_path, "--collection", "docs")
    (tmp_path / "guide.md").write_text(GUIDE.replace("## Install", "## Set up"))
    result = run("load", tmp_path, "--collection", "docs")
    assert result.stdout == "docs: 2 chunks from 1 file: 1 updated, 1 unchanged\n"


def test_bad_inputs_are_named_and_the_exit_code_is_1(run, tmp_path):
    (tmp_path / "a.md").write_bytes(b"\x01")
    (tmp_path / "b.jsonl").write_text('{"text": "good"}\nbad\n' + json.dumps({"id": 1.5, "text": "x"}))
    result = run("load", tmp_path, "--collection", "docs")
    assert result.returncode == 1
    assert result.stdout == "docs: 1 chunk from 1 file: 1 created, 3 errors\n"
    first, second, third = result.stderr.splitlines()
    assert first == f"{tmp_path.name}/a.md: is not a text: it contains control characters"
    assert second.startswith(f"{tmp_path.name}/b.jsonl:2: is not JSON: ")
    assert third == f"{tmp_path.name}/b.jsonl:3: 'id' is not a string"


def test_without_a_collection_files_go_where_questions_are_asked(run, service, tmp_path, monkeypatch):
    (tmp_path / "guide.md").write_text(GUIDE)
    assert run("load", tmp_path).stdout == "rag-documents: 2 chunks from 1 file: 2 created\n"
    monkeypatch.setenv("RAG_DOCUMENTS_COLLECTION", "another")
    assert run("load", tmp_path / "guide.md").stdout == "another: 2 chunks from 1 file: 2 created\n"
    sources = {each["metadata"]["source"] for each in service.store.documents("another")}
    assert sources == {f"{tmp_path.name}/guide.md"}


def test_the_setting_says_how_files_are_split(run, service, tmp_path, monkeypatch):
    (tmp_path / "guide.md").write_text(GUIDE)
    monkeypatch.setenv("RAG_CHUNKING", "Whole")
    assert run("load", tmp_path).stdout == "rag-documents: 1 chunk from 1 file: 1 created\n"
    again = run("load", tmp_path, "--profile", "sections")
    assert again.stdout == "rag-documents: 2 chunks from 1 file: 1 created, 1 updated\n"
    monkeypatch.setenv("RAG_CHUNKING", "halves")
    wrong = run("load", tmp_path)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "RAG_CHUNKING" in wrong.stderr


def test_every_file_that_is_passed_over_is_named_and_is_no_error(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / ".hidden.md").write_text("hidden")
    (tmp_path / "picture.png").write_bytes(b"x")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "link.md").symlink_to(tmp_path / "guide.md")
    result = run("load", tmp_path, "--collection", "docs")
    assert (result.returncode, result.stdout) == (0, "docs: 2 chunks from 1 file: 2 created, 4 passed over\n")
    assert result.stderr.splitlines() == [
        f"passed over: {tmp_path.name}/{reason}"
        for reason in (
            ".hidden.md: is hidden",
            "link.md: is a symbolic link (--follow-links loads it)",
            "picture.png: is of no kind that can be read",
            "empty.txt: contains no text",
        )
    ]
    again = run("load", tmp_path, "--collection", "docs")
    assert again.stdout == "nothing changed: 2 chunks from 1 file are already there, 4 passed over\n"


def test_names_do_nothing_to_a_terminal(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    (tmp_path / "red\x1b[31m\n.png").write_bytes(b"x")
    assert run("load", tmp_path).stderr == (
        f"passed over: {tmp_path.name}/red\ufffd[31m\ufffd.png: is of no kind that can be read\n"
    )


def test_the_first_of_many_that_are_passed_over_are_named_and_all_when_asked(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    for number in range(60):
        (tmp_path / f"{number}.png").write_bytes(b"x")
    few, all_of_them = run("load", tmp_path), run("load", tmp_path, "--verbose")
    assert (len(few.stderr.splitlines()), few.stderr.splitlines()[-1]) == (51, "… and 10 more")
    assert len(all_of_them.stderr.splitlines()) == 60


def test_a_file_over_the_limit_is_an_error(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    with (tmp_path / "large.md").open("wb") as file:
        file.truncate(2 * 1024 * 1024)
    result = run("load", tmp_path, "--max-file-mb", "1")
    assert (result.returncode, result.stderr) == (1, f"{tmp_path.name}/large.md: is larger than 1 MB\n")


def test_a_load_gives_way_unless_at_full_speed(tmp_path):
    probe = "import os; from interfaces.commands.priority import give_way as g; g(); print(os.nice(0))"
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout == "10\n"


def test_the_first_of_many_errors_are_shown(run, tmp_path):
    (tmp_path / "b.jsonl").write_text("bad\n" * 60)
    result = run("load", tmp_path, "--collection", "docs")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 51
    assert result.stderr.endswith("… and 10 more\n")
    assert len(run("load", tmp_path, "--collection", "docs", "--verbose").stderr.splitlines()) == 60


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "http://127.0.0.1:1"], "Error: The service at http://127.0.0.1:1 cannot be reached"),
        (
            ["--url", "nonsense"],
            "Error: The configuration for 'chromadb-wrapper' is not valid: URL must be http(s)://host",
        ),
        (["--collection", "x"], "Error: Collection name must be"),
        (["--embedding-provider", "psychic"], "Error: Provider 'psychic' not found"),
        (["--embedding-url", "http://127.0.0.1:1/v1"], "Error: "),
        (["--connection", "mine"], "Error: Invalid value for '--connection': 'mine' is not 'default'"),
        (["--max-tokens", "3"], "Error: Invalid value for '--max-tokens'"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_2(run, tmp_path, arguments, sentence):
    (tmp_path / "guide.md").write_text(GUIDE)
    result = run("load", tmp_path, "--collection", "docs", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith(sentence)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("path", ["missing", "picture.png", "empty"])
def test_a_path_without_anything_to_load_is_exit_code_2(run, tmp_path, path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "picture.png").write_bytes(b"x")
    result = run("load", tmp_path / path, "--collection", "docs")
    assert (result.returncode, result.stdout) == (2, "")
    assert path in result.stderr


def test_another_model_is_refused_with_both_names(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    run("load", tmp_path, "--collection", "docs")
    result = run("load", tmp_path, "--collection", "docs", "--embedding-model", "letters-2")
    assert result.returncode == 2
    assert result.stderr == "Error: Collection 'docs' was embedded with 'letters-1', not with 'letters-2'\n"


def test_progress_is_drawn_on_a_terminal_only_and_off_stdout(run, tmp_path):
    (tmp_path / "guide.md").write_text(GUIDE)
    leader, follower = pty.openpty()
    command = (*RUN_MAIN, "load", str(tmp_path), "--collection", "docs")
    environ = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=environ, timeout=60, check=False)
    os.close(follower)
    drawn = os.read(leader, 1 << 16).decode()
    os.close(leader)
    assert result.stdout == b"docs: 2 chunks from 1 file: 2 created\n"
    assert "100%" in drawn
    assert "2 chunks" in drawn


def test_help_lists_the_commands_without_importing_them(run):
    result = run("--help")
    assert result.returncode == 0
    assert "Load files and folders" in result.stdout
    probe = "import sys, interfaces.cli as c; c.main(['-h'], standalone_mode=False); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert "'interfaces.cli'" in modules.stdout
    assert "numpy" not in modules.stdout


def test_an_unknown_command_is_a_usage_error(run):
    result = run("lode")
    assert result.returncode == 2
    assert "No such command 'lode'" in result.stderr


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://127.0.0.1:5006"),
        ({"RAG_HOST": "", "RAG_PORT": ""}, "http://127.0.0.1:5006"),
        ({"RAG_HOST": "0.0.0.0", "RAG_PORT": "80"}, "http://127.0.0.1:80"),
        ({"RAG_HOST": "::"}, "http://[::1]:5006"),
        ({"RAG_HOST": "rag.example"}, "http://rag.example:5006"),
    ],
)
def test_the_service_is_where_its_settings_say(environ, url):
    assert service_url(environ) == url
