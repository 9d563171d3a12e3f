"""`rag-wrapper watch`, with real file events, asked of a service in this process."""

import signal
import subprocess
import threading
import uuid
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from interfaces.asked_service import service_at
from interfaces.cli import main
from interfaces.commands.work import folder_watch
from interfaces.commands.work.folder_watch import Watch
from retrieval.reading.not_read import INSTEAD
from schemas.errors import ConflictError
from tests.interfaces.conftest import environ
from tests.support.apps import served
from tests.support.commands import RUN_MAIN
from tests.support.live import PATIENCE_SECONDS, eventually, free_port
from tests.support.logs import logs_of


@pytest.fixture
def run(run):
    """`run(folder, …)`: (exit code, output, lines on stderr) of one round."""
    return lambda *arguments: run("watch", *arguments, "--once")


@pytest.fixture
def stored(client, collection):
    """`stored()`: the texts in the collection by path."""

    def stored():
        answer = client.get(f"/collections/{collection}/documents", query_string={"limit": 1000})
        return {each["metadata"]["path"]: each["text"] for each in answer.json.get("documents", ())}

    return stored


@pytest.fixture
def watching(url, collection, client):
    """`with watching(folder) as status:` watches it for the length of the block; `status()` is what the service knows
    of it."""

    @contextmanager
    def watching(folder, at=url):
        stop, failures = threading.Event(), []

        def keep():
            try:
                watch.run(0.05)
            except ConflictError as error:
                failures.append(error)
            finally:
                watch.end()

        with service_at(at) as asking:
            watch = Watch(folder, folder.name, asking, stop, collection)
            thread = threading.Thread(target=keep)
            thread.start()
            try:
                yield lambda: client.get(f"/api/watchers/{folder.name}").json
            finally:
                stop.set()
                thread.join()
        assert not failures

    yield watching
    client.delete(f"/collections/{collection}")


def test_once_brings_in_step_and_says_what_was_done(run, root, stored):
    (root / "guide.md").write_text("# Guide\n\nHow to start.\n")
    (root / "with space").mkdir()
    (root / "with space" / "main.py").write_text("print('hello')\n")
    assert run(root) == (0, f"{root.name}: 2 files: 2 indexed\n", [])
    assert set(stored()) == {"guide.md", "with space/main.py"}
    (root / "bad.txt").write_bytes(b"\x01")
    (root / "with space" / "main.py").unlink()
    named = f"{root.name}/bad.txt: is not a text: it contains control characters"
    assert run(root) == (1, f"{root.name}: 2 files: 1 deleted, 1 failed\n", [named])
    assert list(stored()) == ["guide.md"]
    (root / "bad.txt").unlink()
    (root / "picture.gif").write_bytes(b"x")
    named = f"passed over: {root.name}/picture.gif: is of no kind that can be read"
    assert run(root) == (0, f"{root.name}: 1 file: nothing changed, 1 passed over\n", [named])
    (root / "guide.md").unlink()
    code, said, named = run(root)
    assert (code, said, "nothing is deleted unless an empty folder is allowed" in named[0]) == (2, "", True)
    assert list(stored()) == ["guide.md"]
    assert run(root, "--allow-empty")[1] == f"{root.name}: 0 files: 1 deleted, 1 passed over\n"


def test_what_was_only_loaded_is_watched_from_then_on_and_what_others_stored_stays(run, root, stored, url, collection):
    (root / "a.md").write_text("a")
    (root / "b.md").write_text("b")
    load = ["load", str(root), "--collection", collection, "--url", url]
    assert CliRunner().invoke(main, load).exit_code == 0
    (root / "b.md").unlink()
    assert run(root)[1] == f"{root.name}: 1 file: 1 indexed\n"
    assert set(stored()) == {"a.md", "b.md"}, "it was not watched when its file went"
    assert run(root)[1] == f"{root.name}: 1 file: nothing changed\n"
    assert CliRunner().invoke(main, load).stdout == "nothing changed: 1 file is already there\n"
    (root / "c.md").write_text("c")
    (root / "a.md").unlink()
    assert run(root)[1] == f"{root.name}: 1 file: 1 indexed, 1 deleted\n"
    assert set(stored()) == {"b.md", "c.md"}


def test_several_folders_are_watched_each_under_a_name(run, root, tmp_path, stored, client):
    other = tmp_path / f"other-{uuid.uuid4().hex[:8]}"
    other.mkdir()
    for folder in (root, other):
        (folder / f"{folder.name[:5]}.md").write_text("x")
    assert run(root, other, "--shared")[:2] == (0, f"{root.name}: 1 file: 1 indexed\n{other.name}: 1 file: 1 indexed\n")
    assert set(stored()) == {"notes.md", "other.md"}
    report = client.get(f"/api/watchers/{root.name}").json
    assert (report["state"], report["shared"], report["files"], report["stored"]) == ("stopped", True, 1, 1)


def test_file_events_are_followed(watching, root, stored, monkeypatch):
    said = logs_of(monkeypatch, folder_watch.__name__)
    (root / "first.md").write_text("first")
    (root / "old.doc").write_text("old")
    with watching(root) as status:
        eventually(lambda: status().get("at"))
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
        eventually(lambda: set(stored()) == {"log.txt", "moved/new.py", "moved/later.py"})
    report = status()
    assert (report["state"], report["files"], report["stored"], report["failed"]) == ("stopped", 3, 3, 0)
    assert [each["reason"] for each in said if each["event"] == "a file is not indexed"] == [INSTEAD[".doc"]]


def test_a_service_that_is_away_is_waited_for_and_a_folder_that_is_replaced_deletes_nothing(
    watching, app, root, stored, monkeypatch
):
    monkeypatch.setattr(folder_watch, "FIRST_PAUSE_SECONDS", 0.05)
    (root / "a.md").write_text("a")
    port = free_port()
    with watching(root, at=f"http://127.0.0.1:{port}") as status:
        with served(app, port):
            eventually(lambda: set(stored()) == {"a.md"})
            eventually(lambda: status().get("at"))
        (root / "b.md").write_text("b")
        with served(app, port):
            eventually(lambda: set(stored()) == {"a.md", "b.md"})
            away = root.rename(root.parent / "away")
            eventually(lambda: status().get("state") == "retrying")
            assert set(stored()) == {"a.md", "b.md"}
            away.rename(root)
            eventually(lambda: status().get("state") == "watching")
            (root / "b.md").unlink()
            eventually(lambda: set(stored()) == {"a.md"})


@pytest.mark.slow
def test_a_second_watch_of_the_name_ends_and_a_signal_ends_the_first(run, root, client, url, collection):
    line = [*RUN_MAIN, "watch", str(root), "--collection", collection, "--url", url]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ())
    try:
        eventually(lambda: client.get(f"/api/watchers/{root.name}").json.get("state") == "watching")
        code, _, named = run(root)
        assert (code, f"Watcher '{root.name}' is running as " in named[-1]) == (2, True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    assert client.get(f"/api/watchers/{root.name}").json["state"] == "stopped"
