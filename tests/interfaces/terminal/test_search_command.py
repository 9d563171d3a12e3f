"""`rag-wrapper search` and `ask`: what they ask, what they show and how they end; `ask` shows the passages without a
model."""

import json
import re
import uuid

import pytest

from interfaces.terminal.answers import show_sources
from interfaces.terminal.screen import Screen
from retrieval.chat.answering import to_source
from schemas.contracts.chat import ChatTurn
from schemas.contracts.text_documents import SimilarChunk
from schemas.settings import RetrievalSettings
from schemas.wire.chat import chat_answer as chat_answer_of
from tests.support.model_server import as_events, chat_answer

TEXTS = {
    "backups": "Backups run every night at two. They are encrypted and kept for thirty days.",
    "restore": "To restore a backup, stop the service and put the file into an empty directory.",
    "holidays": "Employees have thirty days of holidays in a year.",
}


@pytest.fixture(scope="module")
def library(app, upload):
    """A collection of four documents, of which one has pages."""
    name = f"asked-{uuid.uuid4().hex[:8]}"
    for path, text in TEXTS.items():
        upload(name, f"wiki/{path}.md", text)
    parts = [f"## Part {number}\n\nThe valve number {number} opens at {number} bar." for number in range(5)]
    upload(name, "wiki/valves.md", "\n\n".join(parts))
    client, place = app.test_client(), f"/collections/{name}/documents"
    [stored] = client.get(place, query_string={"where": '{"source": "wiki/backups.md"}'}).json["documents"]
    assert client.patch(f"{place}/{stored['id']}", json={"metadata": {"page": 12}}).status_code == 200
    yield name
    client.delete(f"/collections/{name}")


def without_times(answer):
    for oracle in answer["receipt"]["oracles"].values():
        oracle.pop("latency_ms", None)
    return answer


def test_a_hit_is_a_place_a_relevance_and_a_passage(run, library):
    result = run("search", "when do backups run?", "--collection", library, "--top-k", 1)
    assert result.exit_code == 0
    head, passage = result.stdout.splitlines()
    assert re.fullmatch(r"wiki/backups\.md p\. 12  backups\.md  \d+%", head)
    assert passage == f"    {TEXTS['backups']}"
    assert result.stderr == ""


def test_nothing_relevant_is_said_with_what_was_asked(run, library):
    result = run("search", "Which shoes do penguins wear?", "--collection", library)
    assert result.exit_code == 1
    first, second = result.stdout.splitlines()
    assert first == f"Nothing relevant was found. Asked: {library}."
    assert re.fullmatch(r"Less relevant than \d+%, and left out: \d+; --min-relevance 0 shows them\.", second)
    assert run("search", "Which shoes do penguins wear?", "--collection", library, "--min-relevance", 0).exit_code == 0


def test_a_question_may_begin_with_a_dash_and_a_mistyped_option_is_none(run, library):
    for question in ("--no-cache-dir", "-9 degrees", "--what is it"):
        result = run("search", question, "--collection", library)
        assert (result.exit_code, result.stdout.startswith("Nothing relevant")) == (1, True), question
    for wrong in (["x", "--limt", "3"], ["--limt", "3"], ["--colection", "x"], ["--full"], ["--one", "--two"]):
        result = run("search", *wrong)
        assert result.exit_code == 2, wrong
        assert "No such option" in result.stderr or "stands behind --" in result.stderr, wrong


def test_an_oracle_that_failed_is_told_beside_the_hits(run, library, failing_oracle):
    result = run("search", "when do backups run?", "--collection", library)
    assert (result.exit_code, result.stderr) == (0, f"{failing_oracle}\n")


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ((), {}),
        (("--top-k", 1), {"limit": 1}),
        (("--min-relevance", "0"), {"min_relevance": 0}),
        (("--where", '{"page": 12}'), {"where": {"page": 12}}),
        (("--oracle", "lexical"), {"oracles": ["lexical"]}),
        (("--fusion", "rrf"), {"fusion": "rrf"}),
        (("--explain",), {"explain": True}),
        (("--context", 1), {"gather": {"by": "document_id", "order_by": ["chunk_index"], "before": 1, "after": 1}}),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) and value else None,
)
def test_json_is_the_answer_of_the_route(run, client, library, options, body):
    result = run("search", "backup", "--collection", library, "--json", *options)
    asked = {"query": "backup", "limit": 10, "collections": [library], **body}
    expected = client.post("/api/search", json=asked)
    assert expected.status_code == 200, expected.json
    assert without_times(json.loads(result.stdout)) == without_times(expected.json)
    assert result.exit_code == (0 if expected.json["results"] else 1)


def test_neighbours_stand_around_a_hit_in_their_order(run, library):
    result = run("search", "Part 2: valve number 2", "--collection", library, "--top-k", 1, "--context", 1)
    numbers = re.findall(r"The valve number (\d)", result.stdout)
    assert numbers == ["1", "2", "3"]
    quoted = [line for line in result.stdout.splitlines() if line.startswith("  | ")]
    assert re.findall(r"The valve number (\d)", "\n".join(quoted)) == ["1", "3"]
    assert len([line for line in quoted if re.search(r"\.md:\d+$", line)]) == 2


def test_an_explanation_says_who_found_what_and_what_was_cut(run, library):
    shown = run("search", "when do backups run?", "--collection", library, "--top-k", 1, "--explain").stdout
    assert re.search(r"found by semantic #1 \(0\.\d{3}\), lexical #1 \(0\.\d{3}\)", shown)
    assert re.search(r"#1 with score \d\.\d{3}, rrf 0\.\d{4}", shown)
    assert re.search(r"wiki/\w+\.md(:\d+)?: (cut|left out): rank 2 of", shown) or "left out: rank 2" in shown
    assert "fusion: smoothed, candidates compared by vectors and words" in shown
    assert f"collection {library}: asked" in shown


def test_long_passages_are_cut_around_the_words_and_shown_whole_if_wanted(run, upload, collection):
    words = "stone water light grass cloud " * 20
    text = f"{words}where the heron stands on one leg {words}".strip()
    upload(collection, "heron.md", text)
    ask = ("search", "heron leg", "--collection", collection, "--min-relevance", 0)
    cut, whole = run(*ask).stdout, run(*ask, "--full").stdout
    assert "the heron stands on one leg" in cut
    assert re.search(r"^ +… \w+ ", cut, re.MULTILINE)
    assert len(cut) < 1_000
    assert "…" not in whole
    assert text in whole.replace("\n    ", " ")


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

    def say(words, ends=None):
        models.routes["/v1/chat/completions"] = lambda body: chat_answer(body, words, ends)

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


@pytest.mark.parametrize("as_json", [False, True])
def test_an_answer_that_is_not_whole_ends_with_3_and_its_thoughts_are_not_shown(run, talking, saying, as_json):
    saying("<think>Hm [9].</think>Thirty days [1] or", "length")
    result = run("ask", QUESTION, *(["--json"] if as_json else []), on=talking)
    assert (result.exit_code, "[9]" in result.stdout, "Thirty days [1] or" in result.stdout) == (3, False, True)
    assert result.stderr == "The answer is not whole: the model has come to the limit of its length\n"
    assert not as_json or json.loads(result.stdout)["finish_reason"] == "length"


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
