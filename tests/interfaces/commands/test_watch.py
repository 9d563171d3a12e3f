"""The command as a process of its own, as a user runs it, with real file events, against the live service."""

import signal
import subprocess
import uuid
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from tests.interfaces.conftest import environ
from tests.support.commands import RUN_MAIN, run_command
from tests.support.live import PATIENCE_SECONDS, eventually


@pytest.fixture
def root(tmp_path):
    """A folder with a name that no other test uses."""
    root = tmp_path / f"notes {uuid.uuid4().hex[:8]}"
    root.mkdir()
    return root


@pytest.fixture
def settings(models_up, collection):
    return {
        "embedding_provider": "openai",
        "embedding_url": f"{models_up.url}/v1",
        "embedding_model": "stub",
        "documents_collection": collection,
    }


@pytest.fixture
def run(live, settings):
    return lambda *arguments: run_command("watch", *arguments, "--url", live.url, **settings)


@pytest.fixture
def watching(settings, session, live, tmp_path):
    """`with watching(folder) as status:` runs it for the length of the block, after which it must exit with 0.

    `status()` returns what the service knows of it.
    """

    @contextmanager
    def watching(folder, *options):
        line = [*RUN_MAIN, "watch", str(folder), "--debounce-seconds", "0.3", *options, "--url", live.url]
        log = tmp_path / "watch.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                line, env=environ(**settings) | {"PYTHONFAULTHANDLER": "1"}, stdout=output, stderr=output
            )

        def status():
            answer = session.get(f"{live.url}/api/watchers/{folder.name}")
            assert process.poll() is None or answer.json()["state"] == "stopped", log.read_text()
            return answer.json() if answer.status_code == 200 else {"state": None}

        try:
            yield status
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
                code = process.wait(PATIENCE_SECONDS)
            assert code == 0, log.read_text()
        finally:
            process.kill()
            process.wait()

    return watching


@pytest.fixture
def stored(session, live, collection):
    """`stored()`: the texts in the collection by path."""

    def stored():
        answer = session.get(f"{live.url}/collections/{collection}/documents", params={"limit": 1000})
        if answer.status_code == 404:
            return {}
        return {each["metadata"]["path"]: each["text"] for each in answer.json()["documents"]}

    return stored


def test_once_brings_in_step_and_says_what_was_done(run, root, models_up, stored):
    (root / "guide.md").write_text("# Guide\n\nHow to start.\n")
    (root / "with space").mkdir()
    (root / "with space" / "main.py").write_text("print('hello')\n")
    first = run(root, "--once")
    assert (first.returncode, first.stdout, first.stderr) == (0, f"{root.name}: 2 files: 2 indexed\n", "")
    assert set(stored()) == {"guide.md", "with space/main.py"}
    embedded = len(models_up.requests)
    (root / "bad.txt").write_bytes(b"\x01")
    (root / "with space" / "main.py").unlink()
    second = run(root, "--once")
    assert (second.returncode, second.stdout) == (1, f"{root.name}: 2 files: 1 deleted, 1 failed\n")
    assert second.stderr == f"{root.name}/bad.txt: is not a text: it contains control characters\n"
    assert len(models_up.requests) == embedded
    assert list(stored()) == ["guide.md"]
    (root / "bad.txt").unlink()
    (root / "picture.png").write_bytes(b"x")
    third = run(root, "--once")
    assert (third.returncode, third.stdout) == (0, f"{root.name}: 1 file: nothing changed, 1 passed over\n")
    assert third.stderr == f"passed over: {root.name}/picture.png: is of no kind that can be read\n"
    (root / "guide.md").unlink()
    (root / "picture.png").unlink()
    refused = run(root, "--once")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "nothing is deleted unless an empty folder is allowed" in refused.stderr
    assert list(stored()) == ["guide.md"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing"], "Error: Invalid value for 'DIR…': Directory 'missing' does not exist."),
        ([".", ".", "--name", "x"], "Error: --name is for one folder only."),
        ([".", "."], "Error: Two folders are called "),
        ([".", "--name", "a/b"], "Error: A folder cannot be called 'a/b': "),
        ([".", "--collection", "x"], "Error: Collection name must be"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_code_2(arguments, sentence):
    result = CliRunner().invoke(main, ["watch", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith(sentence)


def test_file_events_are_followed(watching, root, models_up, stored):
    (root / "first.md").write_text("first")
    with watching(root) as status:
        eventually(lambda: status()["state"] == "watching")
        assert stored() == {"first.md": "first"}
        with (root / "log.txt").open("w") as file:
            for number in range(20):
                file.write(f"line {number}\n")
                file.flush()
        eventually(lambda: stored().get("log.txt", "").endswith("line 19"))
        (root / "below").mkdir()
        (root / "below" / "new.py").write_text("new = 1")
        eventually(lambda: "below/new.py" in stored())
        (root / "below" / "later.py").write_text("later = 1")
        eventually(lambda: "below/later.py" in stored())
        (root / "below").rename(root / "moved")
        (root / "first.md").unlink()
        moved = {"log.txt", "moved/new.py", "moved/later.py"}
        eventually(lambda: set(stored()) == moved)
        # Reports are spaced, so the latest one may date from the middle of the changes for a while.
        told = eventually(lambda: (found := status())["deleted"] == 3 and not found["pending"] and found)
        assert (told["indexed"], told["files"]) == (6, 3)
        assert told["last_change"] > told["started_at"]
    assert status()["state"] == "stopped"
    assert sum("line 19" in text for request in models_up.requests for text in request.body["input"]) == 1


def test_a_second_process_for_the_same_folder_ends(watching, run, root, models_up):
    with watching(root) as status:
        eventually(lambda: status()["state"] == "watching")
        other = run(root, "--once")
        assert (other.returncode, other.stdout) == (2, "")
        assert f"Watcher '{root.name}' is running as " in other.stderr
