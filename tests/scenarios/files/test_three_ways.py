"""A folder with files of every kind goes in by command, by a watched folder and by upload: the same documents each way,
and a question about each of them finds the right place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from interfaces.cli import main
from retrieval.reading import KINDS
from tests.support.documents import library, samples
from tests.support.live import eventually, live_service

SUBJECTS = library.subjects(Path(__file__).with_name("subjects.txt"))
WAYS = ("loaded", "watched", "uploaded")
MARKS = {"pdf": "page", "pptx": "slide", "odp": "slide"}
BY_SHEET, WITHOUT_SECTIONS = ("xlsx", "ods"), ("email", "csv", "tsv", "code", "text")
UNREADABLE = {
    "locked.pdf": (samples.pdf(1, password="secret"), "encrypted"),
    "broken.docx": (b"PK\x03\x04 and no more", "unreadable"),
    "laughs.odt": (samples.zipped({"content.xml": '<!DOCTYPE a [<!ENTITY a "ha">]><a>&a;</a>'}), "unreadable"),
    "old.doc": (b"\xd0\xcf\x11\xe0", "unsupported_kind"),
    "picture.png": (b"\x89PNG", "unsupported_kind"),
    "blank.txt": (b" \n", "empty"),
    "scanned.pdf": (samples.pdf(1, text=False), "empty"),
}
SENTENCES = {
    "encrypted": "is encrypted",
    "unreadable": "damaged|declares entities",
    "unsupported_kind": "kind that can(not)? be read",
    "empty": "no text",
}


@dataclass(frozen=True)
class Asked:
    """A file, its kind and its subject."""

    name: str
    kind: str
    subject: library.Subject


ASKED = [
    Asked(f"{kind}/{subject.title}{f'.{suffix}' if suffix else ''}", kind, subject)
    for (kind, suffix, _), subject in zip(library.FILES, SUBJECTS, strict=True)
]


def test_there_are_two_files_of_every_kind():
    for kind in KINDS:
        assert kind.is_records or sum(each.kind == kind.name for each in ASKED) >= 2, kind.name


@pytest.fixture(scope="module")
def service(tmp_path_factory, processes):
    with live_service(tmp_path_factory.mktemp("ways"), keep_originals="on") as service:
        yield service


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all") / "library"
    for each, (_, _, make) in zip(ASKED, library.FILES, strict=True):
        place = folder / each.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(make(each.subject))
    for name, (content, _) in UNREADABLE.items():
        (folder / name).write_bytes(content)
    (folder / "link.md").symlink_to(folder / "blank.txt")
    return folder


@pytest.fixture(scope="module")
def told(service, folder):
    """What each way says of the files that it could not store, when all others are stored: {way: {name: sentence}}."""

    def command(*arguments):
        result = CliRunner().invoke(main, [*map(str, arguments), "--url", service.url])
        lines = (line.removeprefix("passed over: ") for line in result.stderr.splitlines())
        named = (line.partition(": ") for line in lines)
        assert result.exit_code == 1, result.output
        return {name.removeprefix("library/"): reason for name, _, reason in named}

    return {
        "loaded": command("load", folder, "--collection", "loaded", "--full-speed"),
        "watched": command("watch", folder, "--collection", "watched", "--once"),
        "uploaded": upload(service, folder, [each.name for each in ASKED] + list(UNREADABLE)),
    }


def upload(service, folder, names):
    """Upload files and return {name: reason} of those that were not stored."""
    files = [("file", (f"library/{name}", (folder / name).read_bytes())) for name in names]
    answer = requests.post(f"{service.url}/api/documents?collection=uploaded", files=files, timeout=60)
    assert answer.status_code == 202, answer.text
    place = f"{service.url}/api/jobs/{answer.json()['job']['id']}"

    def ended():
        job = requests.get(place, timeout=10).json()
        return job if job["status"] not in ("queued", "running") else None

    job = eventually(ended, seconds=120, complaint=service.tail)
    assert job["status"] == "done"
    files = [*answer.json()["files"], *job["files"]]
    return {each["name"].removeprefix("library/"): each["message"] for each in files if each.get("message")}


@pytest.fixture(scope="module")
def chunks(service, told):
    """`chunks(way)`: {id: (text, metadata)} of all that is stored."""

    def read(way):
        found = requests.get(f"{service.url}/collections/{way}/documents", params={"limit": 1000}, timeout=30).json()
        assert found["next_cursor"] is None
        return {each["id"]: (each["text"], each["metadata"]) for each in found["documents"]}

    return read


@pytest.mark.parametrize("way", WAYS)
def test_every_file_is_there_or_named_with_its_reason(service, told, way):
    named = {name: reason for name, reason in told[way].items() if name != "link.md"}
    assert ("link.md" in told[way]) == (way != "uploaded")
    assert set(named) == set(UNREADABLE)
    for name, (_, code) in UNREADABLE.items():
        assert re.search(SENTENCES[code], named[name]), (name, named[name])
    listed = requests.get(f"{service.url}/api/documents", params={"collection": way, "limit": 100}, timeout=30).json()
    assert listed["total"] == len(ASKED)
    kinds = {each["source"]: each["kind"] for each in listed["documents"]}
    assert kinds == {f"library/{each.name}": each.kind for each in ASKED}


def test_all_ways_make_the_same_documents(chunks):
    apart = ("created_at", "updated_at", "folder", "given", "content_hash")  # `folder` is what a watch gives
    loaded, watched, uploaded = (
        {
            each: (text, {name: value for name, value in metadata.items() if name not in apart})
            for each, (text, metadata) in chunks(way).items()
        }
        for way in WAYS
    )
    assert loaded == uploaded
    assert loaded == watched


@pytest.mark.parametrize("way", WAYS)
def test_a_question_about_each_document_finds_the_place_that_answers_it(service, told, way, record_property):
    missed = {}
    for each in ASKED:
        body = {"query": each.subject.question, "collections": [way], "limit": 3}
        answer = requests.post(f"{service.url}/api/search", json=body, timeout=30).json()
        if not any(answers(hit, each) for hit in answer["results"]):
            missed[each.name] = [(hit["metadata"]["source"], hit["metadata"]["section"]) for hit in answer["results"]]
    record_property("found", len(ASKED) - len(missed))
    assert missed == {}


def answers(hit, asked):
    """Return whether a hit is the section of the document that answers its question, and says where that is."""
    metadata, subject = hit["metadata"], asked.subject
    heading, prose = subject.sections[subject.answer]
    if metadata["source"] != f"library/{asked.name}" or " ".join(prose.split()[:6]) not in " ".join(
        hit["content"].split()
    ):
        return False
    if asked.kind in MARKS:
        return metadata[MARKS[asked.kind]] == subject.answer + 1
    if asked.kind in BY_SHEET:
        return metadata["sheet"] == heading
    return asked.kind in WITHOUT_SECTIONS or heading in metadata["section"]


def test_the_same_folder_by_another_way_changes_nothing(service, folder, told, chunks):
    before = chunks("uploaded")
    options = ["--collection", "uploaded", "--url", service.url]
    for command in (["load", str(folder), "--full-speed"], ["watch", str(folder), "--once"]):
        CliRunner().invoke(main, [*command, *options])
        after = chunks("uploaded")
        assert {each: text for each, (text, _) in after.items()} == {each: text for each, (text, _) in before.items()}
    upload(service, folder, [each.name for each in ASKED])
    assert chunks("uploaded") == after
