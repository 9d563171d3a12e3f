"""`rag-wrapper ask`: the model's answer with its sources, or the passages without one."""

import json
import re

import pytest

from interfaces.terminal.answers import show_sources
from interfaces.terminal.screen import Screen
from retrieval.chat.answering import to_source
from schemas.contracts.chat import ChatTurn
from schemas.contracts.text_documents import SimilarChunk
from schemas.settings import RetrievalSettings
from schemas.wire.chat import chat_answer as chat_answer_of
from tests.support.model_server import as_events, as_json, chat_answer

QUESTION = "How long are backups kept?"
BACKUPS = "Backups are kept for thirty days."


def with_text(app, models):
    models.meanings = {"How long": [1, 0], "Backups": [0.96, 0.28], "moon": [0, 0, 1]}
    body = {"source": "wiki", "path": "backups", "title": "Backups", "text": BACKUPS, "metadata": {"page": 7}}
    assert app.test_client().post("/api/rag/ingest", json=body).status_code == 200
    return app


@pytest.fixture(scope="module")
def talking(app_of_models, models):
    return with_text(app_of_models(retrieval=RetrievalSettings(min_relevance=0.5)), models)


@pytest.fixture(scope="module")
def silent(app_of_models, models):
    return with_text(app_of_models(chats=False, retrieval=RetrievalSettings(min_relevance=0.5)), models)


@pytest.fixture
def saying(models):
    """`saying(words)`: the chat model says these."""
    usual = models.routes["/v1/chat/completions"]

    def say(words):
        models.routes["/v1/chat/completions"] = lambda body: chat_answer(body, words)

    yield say
    models.routes["/v1/chat/completions"] = usual


def test_the_answer_comes_with_numbered_sources(run, talking, saying):
    saying("Thirty days [1].")
    result = run("ask", QUESTION, on=talking)
    assert result.exit_code == 0
    answer, blank, source = result.stdout.splitlines()
    assert (answer, blank) == ("Thirty days [1].", "")
    assert re.fullmatch(r"\[1\] wiki p\. 7  Backups  \d+%", source)
    saying("Thirty days.")
    assert run("ask", QUESTION, on=talking).stdout.splitlines()[-1] == source, "it says where it stands, uncited too"
    saying("Thirty days [3].")
    assert "[3] cites nothing: there is no source of this number" in run("ask", QUESTION, on=talking).stdout


def test_a_source_of_lines_has_its_line_and_its_headings(capsys):
    place = {"section": "Backups > Retention", "start_line": 12}
    chunk = SimilarChunk("Text.", 0.5, "d", "c", "i", "wiki/backups.md", "backups.md", "Backups", 0, [], place, 0.9)
    [source] = chat_answer_of(ChatTurn("Yes.", "m", "c", True, (to_source(chunk),)))["ragSources"]
    turn = {"data": {"message": "Yes."}, "relevance": 0.9, "citations": [], "ragSources": [source]}
    show_sources(Screen(), turn)
    assert capsys.readouterr().out.split("\n")[1] == "[1] wiki/backups.md:12  Backups › Retention  90%"


def test_an_answer_that_breaks_off_is_none(run, talking, models, monkeypatch):
    half = as_events({"choices": [{"delta": {"content": "Thirty"}}]})
    monkeypatch.setitem(models.routes, "/v1/chat/completions", lambda body: half)
    result = run("ask", QUESTION, on=talking)
    assert (result.exit_code, result.stdout) == (2, "Thirty\n")
    assert "The answer broke off: " in result.stderr


def test_nothing_relevant_is_said_and_ends_with_1(run, talking, models):
    asked = len(models.requests)
    result = run("ask", "Does the moon sing?", on=talking)
    assert result.exit_code == 1
    assert "nothing" in result.stdout.lower()
    assert not [each for each in models.requests[asked:] if each.path.endswith("completions")]


def test_json_has_answer_sources_and_relevance(run, talking, saying):
    saying("Thirty days [1].")
    found = json.loads(run("ask", QUESTION, "--json", on=talking).stdout)
    assert found["answer"] == "Thirty days [1]."
    [source] = found["sources"]
    assert (source["number"], source["cited"], source["source"], source["page"]) == (1, True, "wiki", 7)
    assert source["text"] == BACKUPS
    assert found["relevance"] == source["relevance"] > 0.9


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_chat_model_the_passages_are_shown(run, silent, as_json):
    result = run("ask", QUESTION, *(["--json"] if as_json else []), on=silent)
    assert result.exit_code == 0
    assert result.stderr.startswith("No chat model answers (")
    if as_json:
        found = json.loads(result.stdout)
        assert (found["answer"], [each["text"] for each in found["sources"]]) == (None, [BACKUPS])
    else:
        assert result.stdout.splitlines()[1] == f"    {BACKUPS}"


def test_a_model_that_breaks_off_is_an_error(run, talking, models):
    models.routes["/v1/chat/completions"], usual = (
        lambda body: as_json({"error": {"message": "overloaded"}}, 500),
        models.routes["/v1/chat/completions"],
    )
    try:
        result = run("ask", QUESTION, on=talking)
    finally:
        models.routes["/v1/chat/completions"] = usual
    assert result.exit_code in (0, 2)
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") == 1
