"""Hostile files among sound ones, uploaded and loaded: one error each, nothing leaves the process that parses, and the
service answers meanwhile."""

import os
import random
import socket
import tempfile
import uuid
from contextlib import closing
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from interfaces.cli import main
from retrieval.reading import KINDS
from tests.durability.processes import children, leader
from tests.support.documents import hostile, samples
from tests.support.live import PATIENCE_SECONDS, eventually, live_service
from tests.support.model_server import model_server

LIMITS = {"read_seconds": 2, "read_memory_mb": 256}
LEAVES = f"evil-{uuid.uuid4().hex}"
"""The name of a file that only a member of an archive has."""
TRUNCATED = ("pdf", "docx", "pptx", "xlsx", "odt", "ods", "odp", "epub", "ipynb")


@pytest.fixture(scope="module")
def listener():
    """A server that an entity could be fetched from; nobody may ever connect to it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def refused(listener):
    """{name: (content, the codes that it may be refused with)}"""
    fetched = hostile.outside(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    heavy = ("too_slow", "too_much_memory", "too_large")
    files = {
        "locked.pdf": (samples.pdf(1, password="secret"), ("encrypted",)),
        "pages.pdf": (hostile.many_pages(10_000), ("too_large",)),
        "endless.pdf": (hostile.endless_pdf(), heavy),
        "bomb.pdf": (hostile.flate_bomb(), ("unreadable", *heavy)),
        "deep.html": (b"<div>" * 50_000 + b"deep" + b"</div>" * 50_000, ("unreadable", *heavy)),
        "deep.ipynb": (b"[" * 100_000, ("unreadable",)),
        "lying.docx": (hostile.lying_bomb(samples.docx_file, "word/document.xml"), heavy),
        "lying.epub": (hostile.lying_bomb(samples.epub_file, "OPS/one.xhtml"), heavy),
        "lying.xlsx": (hostile.lying_bomb(samples.xlsx_file, "xl/worksheets/sheet1.xml"), ("unreadable", *heavy)),
    }
    for kind in ("docx", "pptx", "xlsx", "odt", "ods", "odp", "epub"):
        files[f"bomb.{kind}"] = (hostile.bomb(), ("too_large",))
    for kind in (*hostile.XML_PARTS, "html"):
        files[f"laughs.{kind}"] = (hostile.with_entities(kind, hostile.LAUGHS), ("unreadable",))
        files[f"fetches.{kind}"] = (hostile.with_entities(kind, fetched), ("unreadable",))
    noise = random.Random(0).randbytes(3_000)
    for kind in KINDS:
        if not kind.holds_documents:
            files[f"noise{kind.suffixes[0]}"] = (noise, ("unreadable",))
    for kind, (name, content) in samples.samples().items():
        if kind in TRUNCATED:
            files[f"truncated-{name}"] = (content[: len(content) // 2], ("unreadable",))
    return files


@pytest.fixture(scope="module")
def harmless():
    """{name: content} of files that look dangerous, and can be read; the others are sound."""
    way_out = f"../../../../../../..{tempfile.gettempdir()}/{LEAVES}"
    macro = {"word/vbaProject.bin": b"\0Shell", way_out: b"out"}
    picture = (
        b"<p>Words</p><svg onload=alert(1)><script>alert(2)</script></svg><iframe src=file:///etc/passwd></iframe>"
    )
    return {
        "a.md": b"# First\n\nA sound file.",
        "macro.docm": hostile.changed(samples.docx_file(), macro),
        "macro.xlsm": hostile.changed(samples.xlsx_file(), {"xl/vbaProject.bin": b"\0Shell", way_out: b"out"}),
        "nested.odt": hostile.changed(samples.odt_file(), {"inner.zip": hostile.nested(), way_out: b"out"}),
        "script.html": picture,
        "z.md": b"# Last\n\nA sound file.",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory, refused, harmless):
    folder = tmp_path_factory.mktemp("hostile") / "box"
    folder.mkdir()
    for name, content in ({name: content for name, (content, _) in refused.items()} | harmless).items():
        (folder / name).write_bytes(content)
    (folder / "drawing.svg").write_bytes(b"<svg><script>alert(1)</script></svg>")
    return folder


@pytest.fixture(scope="module")
def environ():
    """The settings of the service and of `load`, with a model that embeds at once."""
    with model_server() as models:
        embedding = {"embedding_provider": "openai", "embedding_url": f"{models.url}/v1", "embedding_model": "stub"}
        yield embedding | LIMITS


@pytest.fixture(scope="module")
def service(tmp_path_factory, environ, processes):
    with live_service(tmp_path_factory.mktemp("box"), **environ) as service:
        yield service


@pytest.fixture
def nothing_left(listener, tmp_path):
    """Check after the test that nobody fetched anything and no member of an archive became a file."""
    yield
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert not (Path(tempfile.gettempdir()) / LEAVES).exists()


def test_each_hostile_file_of_an_upload_is_one_error(service, folder, refused, harmless, nothing_left):
    files = [("file", (path.name, path.read_bytes())) for path in sorted(folder.iterdir())]
    answer = requests.post(f"{service.url}/api/documents?collection=uploaded", files=files, timeout=PATIENCE_SECONDS)
    [drawing] = [each for each in answer.json()["files"] if each["status"] == "refused"]
    assert (drawing["name"], drawing["code"]) == ("drawing.svg", "unsupported_kind")
    place = f"{service.url}/api/jobs/{answer.json()['job']['id']}"

    def ended():
        question = {"query": "Is there a sound file?", "limit": 1}
        assert requests.post(f"{service.url}/api/search", json=question, timeout=PATIENCE_SECONDS).status_code == 200
        job = requests.get(place, timeout=PATIENCE_SECONDS).json()
        return job if job["status"] not in ("queued", "running") else None

    job = eventually(ended, complaint=service.tail)
    stored = {each["name"] for each in job["files"] if each["status"] == "done"}
    failed = {each["name"]: each for each in job["files"] if each["status"] == "failed"}
    assert (stored, set(failed)) == (set(harmless), set(refused))
    for name, (_, codes) in refused.items():
        assert failed[name]["code"] in codes, failed[name]
        assert "\n" not in failed[name]["message"]
        assert str(service.data_dir) not in failed[name]["message"]
    helpers = children(leader(service, "jobs.lock"))
    assert [each for helper in helpers for each in children(helper)] == []
    assert [each.name for each in (service.data_dir / "uploads").iterdir()] == ["home"]
    chunks = requests.get(f"{service.url}/collections/uploaded/documents?limit=100", timeout=PATIENCE_SECONDS).json()
    assert not any(word in each["text"] for each in chunks["documents"] for word in ("alert", "Shell", "root:"))


def test_each_hostile_file_of_a_load_is_one_error(service, folder, environ, refused, harmless, nothing_left):
    settings = {name: None for name in os.environ if name.startswith("RAG_")}
    settings |= {f"RAG_{name.upper()}": str(value) for name, value in environ.items()}
    arguments = ["load", str(folder), "--collection", "loaded", "--verbose", "--url", service.url]
    result = CliRunner(env=settings).invoke(main, arguments)
    assert result.exit_code == 1, result.output
    lines = [line.partition(": ") for line in result.stderr.splitlines()]
    assert "box/drawing.svg: is of no kind that can be read" in [
        rest for name, _, rest in lines if name == "passed over"
    ]
    errors = [name for name, _, _ in lines if name.removeprefix("box/") not in (*harmless, "passed over")]
    assert sorted(errors) == sorted(f"box/{name}" for name in refused)
    listed = requests.get(f"{service.url}/api/documents?collection=loaded&limit=100", timeout=PATIENCE_SECONDS).json()
    assert {each["name"] for each in listed["documents"]} == set(harmless)
