"""The sections of `docs/loading.md` build on each other: its questions, and every other way to ask, find what its
commands load."""

import json
import re
from itertools import pairwise

import pytest

from tests.docs.examples import PROJECT, copy_beginnings, reader, tokens
from tests.support.live import live_service
from tests.support.model_server import model_server

QUESTION = "What survives kill -9?"
LOADED = "rag-documents"
SOURCE = "docs/reliability.md"
WAYS = {
    "/api/search": {"query": QUESTION},
    "/api/rag/search": {"query": QUESTION},
    "/api/rag/retrieve": {"query": QUESTION, "context_key": "a:b", "min_relevance": 0},
    "/api/chat": {"message": QUESTION, "useRag": True},
    "/tools/rag_context_search": {"query": QUESTION},
}
"""The bodies of requests that ask in plain words, by path."""


def blocks(chapter, *languages):
    """Return the code blocks of a section of the page that are in these languages."""
    heading, found = "", []
    for before, token in pairwise(tokens(PROJECT / "docs" / "loading.md")):
        if before.type == "heading_open":
            heading = token.content
        elif token.type == "fence" and heading == chapter and token.info.strip() in languages:
            found.append(token.content)
    return found


def commands(chapter):
    return blocks(chapter, "sh", "bash")


@pytest.fixture(scope="module")
def service(tmp_path_factory, processes):
    """A service that already has other texts, with a folder that holds two of this project's documents as `docs`."""
    with (
        model_server() as models,
        live_service(
            tmp_path_factory.mktemp("load-then-ask"),
            chat_provider="openai",
            chat_url=f"{models.url}/v1",
            chat_model="chatty",
        ) as service,
        service.session() as session,
    ):
        service.chat_requests = models.requests
        texts = [
            "What survives in the desert: cactus, camel, scorpion.",
            "Nine ways to get rid of weeds.",
            "Minus nine degrees.",
        ]
        for number, text in enumerate(texts):
            body = {"source": "garden", "path": f"/{number}", "title": f"Garden {number}", "text": text}
            assert session.post(f"{service.url}/api/rag/ingest", json=body).status_code == 200
        yield service


@pytest.fixture(scope="module")
def run(service, tmp_path_factory):
    """Run commands of the page as a reader would, and return what they print."""
    folder = tmp_path_factory.mktemp("checkout")
    copy_beginnings(folder / "docs")
    return reader(service.url, folder)


@pytest.fixture(scope="module")
def loaded(run):
    [load] = commands("Load a folder")
    assert re.match(rf"{LOADED}: 2 files, \d+ new chunks: 2 created", run(load))


@pytest.fixture
def ask(service, loaded):
    with service.session() as session:

        def ask(path, **body):
            answer = session.post(f"{service.url}{path}", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        yield ask


def test_the_page_counts_the_files_that_it_loads():
    [said] = blocks("Load a folder", "text")
    counted = re.fullmatch(rf"{LOADED}: (\d+) files, \d+ new chunks: (\d+) created, (\d+) passed over\n", said)
    assert counted[1] == counted[2]
    of_docs = (PROJECT / "docs").rglob
    assert int(counted[1]) == len([*of_docs("*.md"), *of_docs("*.jpg")])
    assert int(counted[3]) == len(list(of_docs("*.svg")))


def test_the_questions_of_the_page_are_answered_from_the_loaded_texts(run, loaded):
    questions = [each for each in commands("Ask with text") if "/api/search" in each]
    assert len(questions) == 2
    for question in questions:
        answer = json.loads(run(question))
        first = answer["results"][0]
        assert (first["collection"], first["metadata"]["source"]) == (LOADED, SOURCE)
        assert "kill -9" in first["content"]
        assert answer["receipt"]["collections"][LOADED] == {"status": "asked"}


def test_every_way_to_ask_finds_loaded_texts_above_others(ask, service):
    answers = {path: ask(path, **body) for path, body in WAYS.items()}
    first = {
        "/api/search": answers["/api/search"]["results"][0]["metadata"]["source"],
        "/api/rag/search": answers["/api/rag/search"]["results"][0]["metadata"]["source"],
        "/api/rag/retrieve": answers["/api/rag/retrieve"]["document_chunks"][0]["metadata"]["source"],
        "/api/chat": answers["/api/chat"]["ragSources"][0]["source"],
        "/tools/rag_context_search": answers["/tools/rag_context_search"]["results"][0]["source"],
    }
    assert first == dict.fromkeys(WAYS, SOURCE)
    asked = {path: answer["receipt"]["collections"] for path, answer in answers.items()}
    assert asked == {path: {LOADED: {"status": "asked"}} for path in WAYS}
    assert "kill -9" in service.chat_requests[-1].body["messages"][0]["content"]
