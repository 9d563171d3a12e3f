"""`rag-wrapper load` and `delete`, asked of a service in this process."""

import os
import pty
import signal
import subprocess
from contextlib import suppress
from unittest.mock import patch

import pytest

from interfaces.asked_service import configured_url
from interfaces.commands.work import uploading
from retrieval.jobs.stored_jobs import Limits
from tests.interfaces.conftest import environ
from tests.support.commands import RUN_MAIN
from tests.support.live import PATIENCE_SECONDS, eventually

GUIDE = "# Guide\n\nHow to start.\n\n## Install\n\nPut it there.\n"


@pytest.fixture
def sources(client, collection):
    """`sources()`: the source of each document, once for each."""

    def sources():
        page = client.get("/api/documents", query_string={"collection": collection, "limit": 1000}).json
        return sorted(each["source"] for each in page["documents"])

    return sources


def test_a_folder_is_loaded_and_then_only_what_differs(run, root, sources, client, collection):
    (root / "guide.md").write_text(GUIDE)
    (root / "below").mkdir()
    (root / "below" / 'say "hi" ü.txt').write_text("A note.")
    assert run("load", root) == (0, "2 files, 3 new chunks: 2 created\n", [])
    assert sources() == [f'{root.name}/below/say "hi" ü.txt', f"{root.name}/guide.md"]
    before = client.get(f"/collections/{collection}").json["revision"]
    assert run("load", root) == (0, "nothing changed: 2 files are already there\n", [])
    assert client.get(f"/collections/{collection}").json["revision"] == before
    (root / "guide.md").write_text("# Guide\n")
    (root / "new.md").write_text("New.")
    assert run("load", root) == (0, "3 files, 2 new chunks: 1 created, 1 updated, 1 unchanged\n", [])
    assert run("load", root / "new.md")[1] == "nothing changed: 1 file is already there\n"
    assert run("load", root / "new.md", "--source-prefix", "")[1] == "1 file, 1 new chunk: 1 created\n"
    assert "new.md" in sources()


def test_what_fails_or_is_passed_over_is_named_and_only_failures_are_exit_code_1(run, root, sources, monkeypatch):
    (root / "guide.md").write_text(GUIDE)
    (root / ".hidden.md").write_text("hidden")
    (root / "node_modules").mkdir()
    (root / "red\x1b[31m\n.gif").write_bytes(b"x")
    (root / "empty.md").write_text("")
    code, said, named = run("load", root)
    assert (code, said) == (0, "1 file, 2 new chunks: 1 created, 4 passed over\n")
    assert sorted(named) == [
        f"passed over: {root.name}/.hidden.md: is hidden",
        f"passed over: {root.name}/empty.md: is empty",
        f"passed over: {root.name}/node_modules/: is of a package manager, a compiler or an editor",
        f"passed over: {root.name}/red\ufffd[31m\ufffd.gif: is of no kind that can be read",
    ]
    (root / "bad.txt").write_bytes(b"\x01")
    (root / "large.md").touch()
    os.truncate(root / "large.md", 65 << 20)
    code, said, named = run("load", root)
    assert (code, said) == (1, "1 file: 1 unchanged, 4 passed over, 2 failed\n")
    assert f"{root.name}/bad.txt: is not a text: it contains control characters" in named
    limit = "is larger than 64 MB, which the service takes at most (RAG_UPLOAD_FILE_MB)"
    assert f"{root.name}/large.md: {limit}" in named
    (root / "guide.md").write_text("")
    assert run("load", root)[0] == 1
    assert sources() == [], "a file that was emptied is none any more"


def test_of_many_the_first_are_named_and_all_when_asked(run, root):
    (root / "guide.md").write_text(GUIDE)
    for number in range(60):
        (root / f"{number}.gif").write_bytes(b"x")
    assert [len(run("load", root, *options)[2]) for options in ((), ("--verbose",))] == [51, 60]


def test_prune_deletes_what_is_gone_from_the_folder_alone(run, root, sources):
    for name in ("a.md", "b.md", "c.md"):
        (root / name).write_text(name)
    assert run("load", root)[0] == 0
    assert run("load", root / "a.md", "--source-prefix", "elsewhere")[0] == 0
    assert run("load", root / "a.md", "--source-prefix", f"{root.name}0")[0] == 0
    (root / "a.md").unlink()
    assert run("load", root)[1] == "nothing changed: 2 files are already there\n"
    assert run("load", root, "--prune")[1] == "2 files: 2 unchanged, 1 deleted\n"
    for each in root.iterdir():
        each.unlink()
    code, _, named = run("load", root, "--prune")
    assert (code, "--allow-empty deletes all that is stored of it" in named[-1], len(sources())) == (2, True, 4)
    assert run("load", root, "--prune", "--allow-empty")[1] == "0 files: 2 deleted\n"
    assert sources() == ["elsewhere/a.md", f"{root.name}0/a.md"]
    assert run("load", root, "--prune", "--source-prefix", "")[0] == 2


def test_documents_are_deleted_by_their_source_or_all_below_a_prefix(run, root, sources):
    for name in ("a.md", "b.md", "cafe\u0301.md"):
        (root / name).write_text(name)
    assert run("load", root)[0] == 0
    code, said, named = run("delete", f"{root.name}/a.md", f"{root.name}/none.md")
    assert (code, said, named) == (1, "1 document deleted\n", [f"{root.name}/none.md: is not stored"])
    assert run("delete", f"{root.name}/cafe\u0301.md") == (0, "1 document deleted\n", [])
    assert sources() == [f"{root.name}/b.md"]
    assert run("delete", "--below", f"{root.name}/")[:2] == (0, "1 document deleted\n")
    assert sources() == []
    for arguments in ((), ("a.md", "--below", "a"), ("--below", "")):
        assert run("delete", *arguments)[0] == 2


def test_many_files_go_in_several_jobs_and_wait_for_room(run, root, sources, app, monkeypatch):
    monkeypatch.setattr(uploading, "JOB_FILES", 2)
    monkeypatch.setattr(uploading, "ROOM_SECONDS", 0.05)
    for number in range(9):
        (root / f"{number}.md").write_text(f"Number {number}.")
    jobs = app.extensions["rag.layers"].jobs
    with monkeypatch.context() as full:
        full.setattr(jobs, "_limits", Limits(jobs=1, spool_bytes=1 << 30))
        assert run("load", root)[1] == "9 files, 9 new chunks: 9 created\n"
    assert len(sources()) == 9


@pytest.mark.slow
def test_ctrl_c_leaves_what_was_uploaded_to_the_service_and_loading_again_does_the_rest(
    url, root, run, sources, collection, app, monkeypatch
):
    for number in range(5):
        (root / f"{number}.md").write_text(f"Number {number}.")
    work = app.extensions["rag.layers"].job_runner._work
    begin = work.run

    def wait_until_interrupted(due):
        eventually(lambda: process.poll() is not None)
        return begin(due)

    with monkeypatch.context() as patch:
        patch.setattr(work, "run", wait_until_interrupted)
        line = [*RUN_MAIN, "load", str(root), "--collection", collection, "--url", url]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), text=True)
        eventually(lambda: collection in app.test_client().get("/api/jobs").text or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (130, "")
    assert said == "Interrupted: what was uploaded goes on in the service, and loading again does the rest\n"
    assert run("load", root)[0] == 0
    assert len(sources()) == 5


@pytest.mark.slow
def test_killed_at_any_moment_and_repeated_each_file_is_there_once(url, root, run, sources, collection):
    for number in range(30):
        (root / f"{number}.md").write_text(f"# Number {number}\n\nOf it.\n")
    line = [*RUN_MAIN, "load", str(root), "--collection", collection, "--url", url]
    for moment in range(4):
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ())
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.3 * (moment + 1))
        process.kill()
        process.wait()
    others = [subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environ()) for _ in range(2)]
    assert [each.wait(PATIENCE_SECONDS) for each in others] == [0, 0]
    assert run("load", root)[1] == "nothing changed: 30 files are already there\n"
    assert len(sources()) == len(set(sources())) == 30


@pytest.mark.slow
def test_progress_is_drawn_on_a_terminal_only_and_off_stdout(url, root, collection, client):
    (root / "guide.md").write_text(GUIDE)
    leader, follower = pty.openpty()
    command = (*RUN_MAIN, "load", str(root), "--collection", collection, "--url", url)
    shown = environ() | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=shown)
    os.close(follower)
    drawn = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(leader, 1 << 16):
            drawn += part
    os.close(leader)
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert said.decode() == f"{collection}: 1 file, 2 new chunks: 1 created\n"
    assert b"1/1" in drawn
    assert b"2 chunks stored" in drawn
    client.delete(f"/collections/{collection}")


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
    with patch.dict(os.environ, settings, clear=True):
        assert configured_url() == url


def test_lines_of_jsonl_are_documents(run, root, sources):
    (root / "corpus.jsonl").write_text('{"id": "a", "text": "Of oats."}\n{"id": "b", "text": "Of rye."}\nbad\n')
    (root / "queries.jsonl").write_text('{"id": "q", "text": "a question"}\n')
    (root / "none.jsonl").touch()
    code, said, named = run("load", root)
    assert (code, said) == (1, "1 file, 2 new chunks: 1 created, 2 passed over\n")
    assert any("line 3: is not JSON" in each for each in named), named
    assert sources() == [f"{root.name}/corpus.jsonl"] * 2
    assert run("delete", f"{root.name}/corpus.jsonl") == (0, "2 documents deleted\n", [])


def test_names_are_those_that_the_service_gives_and_another_folder_of_a_name_deletes_nothing(
    run, root, tmp_path, sources
):
    """Blanks around the parts of a name, and the other slash, are none of it: what has the same name is one file."""
    (root / "sub ").mkdir()
    names = [" lead.txt", "sub /in.txt", "back\\slash.txt"]
    for name in (*names, "lead.txt"):
        (root / name).write_text(name)
    stored = sorted(f"{root.name}/{name}" for name in ("lead.txt", "sub/in.txt", "back/slash.txt"))
    for said in ("3 files, 3 new chunks: 3 created, 1 failed\n", "3 files: 3 unchanged, 1 failed\n"):
        assert run("load", root, "--prune")[:2] == (1, said)
        assert sources() == stored
    other = tmp_path / "other" / root.name
    other.mkdir(parents=True)
    (other / "z.md").write_text("Z.")
    code, _, [said] = run("load", other, "--prune")
    assert (code, "is it another one of that name?" in said) == (2, True)
    assert sources() == stored, "nothing is uploaded either"
    bad = tmp_path / "bad\udcff.md"
    bad.write_text("Words.")
    code, _, [said] = run("load", bad)
    assert (code, "has a name that is not UTF-8" in said) == (2, True)


def test_a_large_file_of_records_is_sent_in_parts(run, root, sources, monkeypatch):
    monkeypatch.setattr(uploading, "JOB_BYTES", 100)
    (root / "a.jsonl").write_text("".join(f'{{"id": "r{n}", "text": "Record {n} of oats."}}\n' for n in range(12)))
    assert run("load", root)[:2] == (0, "1 file, 12 new chunks: 1 created\n")
    assert len(sources()) == 12
