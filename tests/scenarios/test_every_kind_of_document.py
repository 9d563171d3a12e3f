"""A folder with documents of every kind goes in by command, by a watched folder and by upload, and answers."""

import os
import subprocess

import pytest
import requests

from retrieval.reading.kinds import KINDS
from tests.support.commands import RUN_MAIN
from tests.support.documents.library import library
from tests.support.live import PATIENCE_SECONDS, eventually, start_service

WAYS = ("loaded", "watched", "uploaded")
DAMAGED = {"broken.pdf": b"%PDF-1.7 of nothing", "picture.gif": b"GIF89a", ".hidden.md": b"# Hidden"}
OF_THE_WAY = {"created_at", "updated_at", "folder", "given", "content_hash"}
"""Metadata that say when a document came, and of a watched one, from which folder; two are hashes of that."""


@pytest.fixture(scope="module")
def service(tmp_path_factory, processes):
    service = start_service(tmp_path_factory.mktemp("kinds"), workers=1)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("of-kinds") / "library"
    folder.mkdir()
    for made in library():
        (folder / made.name).write_bytes(made.content)
    for name, content in DAMAGED.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def reports(service, folder):
    """What each way has said of the folder."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}

    def run(command, *arguments):
        line = [*RUN_MAIN, command, *arguments, str(folder), "--url", service.url]
        done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        return done.returncode, done.stdout + done.stderr

    files = [("file", (f"library/{path.name}", path.read_bytes())) for path in sorted(folder.glob("[!.]*"))]
    answer = requests.post(f"{service.url}/api/documents?collection=uploaded", files=files, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 202, answer.text
    job = f"{service.url}/api/jobs/{answer.json()['job']['id']}"
    reports = {
        "loaded": run("load", "--collection", "loaded", "--verbose"),
        "watched": run("watch", "--once", "--collection", "watched"),
    }
    eventually(lambda: requests.get(job, timeout=PATIENCE_SECONDS).json()["status"] == "done")
    return {**reports, "uploaded": (answer.json(), requests.get(job, timeout=PATIENCE_SECONDS).json())}


@pytest.fixture(scope="module")
def stored(service, reports):
    """`stored(way)`: the chunks of a collection by id."""

    def read(way):
        answer = requests.get(f"{service.url}/collections/{way}/documents?limit=1000", timeout=PATIENCE_SECONDS).json()
        assert answer["total"] == len(answer["documents"])
        return {each["id"]: each for each in answer["documents"]}

    return read


def test_the_library_has_two_of_every_kind():
    kinds = [made.kind for made in library()]
    elsewhere = ("subtitles", "image")
    every = [each.name for each in KINDS if not each.holds_documents and each.name not in elsewhere]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(every, 2)


def test_what_is_not_there_is_named(reports):
    for way, code in (("loaded", 1), ("watched", 1)):
        returned, said = reports[way]
        assert returned == code, said
        assert "broken.pdf" in said
        assert "picture.gif" in said, way
    answer, job = reports["uploaded"]
    refused = {each["name"]: each["code"] for each in answer["files"] if each["status"] == "refused"}
    assert refused == {"library/picture.gif": "unsupported_kind"}
    failed = {each["name"]: each["code"] for each in job["files"] if each["status"] == "failed"}
    assert failed == {"library/broken.pdf": "unreadable"}


def test_every_file_is_there_and_the_same_however_it_came(stored):
    def content(way):
        return {
            chunk_id: (each["text"], {name: told for name, told in each["metadata"].items() if name not in OF_THE_WAY})
            for chunk_id, each in stored(way).items()
        }

    sources = {each["metadata"]["source"]: each["metadata"]["kind"] for each in stored("loaded").values()}
    assert sources == {f"library/{made.name}": made.kind for made in library()}
    loaded, watched, uploaded = map(content, WAYS)
    assert loaded == watched
    assert loaded == uploaded


@pytest.mark.parametrize("way", WAYS)
def test_each_question_is_answered_by_the_right_place_in_the_first_three(service, stored, way):
    missed = []
    for made in library():
        body = {"query": made.question, "collections": [way], "limit": 3}
        results = requests.post(f"{service.url}/api/search", json=body, timeout=PATIENCE_SECONDS).json()["results"]
        places = [each["metadata"] for each in results if each["metadata"]["source"] == f"library/{made.name}"]
        if not any(_is(place, made.place) for place in places):
            missed.append((made.name, made.question, [each["metadata"]["source"] for each in results], places))
    assert missed == [], missed


def _is(metadata, place):
    """Whether a chunk stands at a place: its section is the last of its path, and its pages are from one to another."""
    if "page" in place:
        return metadata["page"] <= place["page"] <= metadata.get("last_page", metadata["page"])
    return all(
        str(metadata.get(name, "")).rpartition(" > ")[2] == value if name == "section" else metadata.get(name) == value
        for name, value in place.items()
    )
