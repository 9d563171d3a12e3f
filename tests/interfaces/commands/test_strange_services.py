"""Commands that are given the URL of something else say so in one sentence, with the exit code of a refusal."""

import json

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from providers.contract_tests.failures import STRANGE_BODIES
from providers.contract_tests.stub_server import serving
from tests.access.faults import all_faults
from tests.support.commands import run_command

HALF = json.dumps({"collections": [{"name": "docs"}], "name": "docs", "rebuild": 5, "status": "ready"}).encode()
"""An answer that looks like that of an earlier release, whose collections have no revision."""
COMMANDS = {
    "check": [],
    "check of one": ["docs"],
    "rebuild": ["--all"],
    "rebuild of one": ["docs"],
    "export": ["{folder}/out"],
    "import": ["{folder}/in"],
}


@pytest.fixture
def folder(tmp_path):
    """A folder with an export of an empty collection, and one with a text."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "docs.ndjson").write_bytes(b"")
    entry = {
        **{"name": "docs", "file": "docs.ndjson", "count": 0, "bytes": 0, "metric": "cosine", "dimension": None},
        **{"metadata": {}, "embedding_model": None},
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    manifest = {"format": "rag-wrapper export", "version": 1, "collections": [entry]}
    (tmp_path / "in" / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("# A\n\nWords.\n")
    return tmp_path


def check_sentence(output, url, *others):
    sentences = (f"What answers at {url} is not this service: 200", f"The service at {url} answered", *others)
    assert any(sentence in output for sentence in sentences), output


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_that_something_else_answers(folder, name):
    given = [argument.format(folder=folder) for argument in COMMANDS[name]]
    with serving() as stub, all_faults() as case:
        for content in (*STRANGE_BODIES, HALF):
            with case(content):
                stub.answer = (200, {}, content)
                stub.requests.clear()
                done = CliRunner().invoke(main, [name.split()[0], *given, "--url", stub.url])
                assert stub.requests
                assert isinstance(done.exception, SystemExit), done.exception
                assert done.exit_code == 2, done.output
                check_sentence(done.output, stub.url)


@pytest.mark.parametrize(
    ("command", "content"), [("load", HALF), ("watch", b"{}"), ("validate", HALF), ("validate", b"<html>")]
)
def test_a_command_that_embeds_says_that_something_else_answers(folder, command, content, processes):
    given = {"load": (folder / "texts", "--collection", "docs"), "watch": (folder / "texts", "--once"), "validate": ()}
    with serving() as stub:
        stub.answer = (200, {}, content)
        done = run_command(command, *given[command], "--url", stub.url)
        assert stub.requests
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if command == "validate" and content == b"<html>" else 2), done
    others = (f"The service at {stub.url} is too old for this filter",) if content == HALF else ()
    check_sentence(done.stdout + done.stderr, stub.url, *others)
