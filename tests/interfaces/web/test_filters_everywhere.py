"""A filter holds wherever something is searched or answered, and one that nobody knows is refused."""

import json
import re

import pytest
from click.testing import CliRunner

from interfaces.cli import main
from tests.interfaces.access.conftest import mcp
from tests.interfaces.console.conftest import Reader, Visitor
from tests.support.apps import served

FORM = "/new-connection/llm/openai"
"""A page with a form."""
QUESTION = "How long are backups kept?"
OF_CHAT = {"useRag": True, "min_relevance": 0}
PLACES = {
    "/api/search": {"query": QUESTION, "min_relevance": 0},
    "/api/rag/search": {"query": QUESTION},
    "/api/rag/retrieve": {"query": QUESTION, "context_key": "a:b", "min_relevance": 0},
    "/api/chat": {"message": QUESTION, **OF_CHAT},
    "/api/collect": {"userMessage": QUESTION, "match_threshold": 3},
    "/v1/chat/completions": {"model": "rag", "messages": [{"role": "user", "content": QUESTION}]},
    "/v1/vector_stores/{}/search": {"query": QUESTION, "ranking_options": {"score_threshold": 0}},
    "/dify/retrieval": {"query": QUESTION, "retrieval_setting": {"score_threshold": 0}},
    "/tools/rag_context_search": {"query": QUESTION},
    "rag_query": {"query": QUESTION, "min_relevance": 0},
    "rag_context_search": {"query": QUESTION},
    "rag_context": {"topic": QUESTION},
}
FACES = ("search", "ask", "/console/ask", "/console/answer", "selected", "?where")


@pytest.fixture(scope="module")
def app(app_of_models):
    return app_of_models()


@pytest.fixture(scope="module")
def name(text_collection):
    return text_collection({each: (f"Backups, said the {each} file.", {"kind": each}) for each in ("pdf", "markdown")})


def written(filters):
    return {name: json.dumps(each) for name, each in filters.items()}


@pytest.fixture
def ask(app, client, name, monkeypatch):
    """`ask(place, **asked)`: what a route or a tool answers, as text."""

    def ask(place, **asked):
        selected = {"service": "local", "name": name, "embedding_connection": "default"}
        named = {
            "/api/collect": {"selectedCollections": [selected]},
            "/v1/chat/completions": {"vector_store_ids": [name]},
            "/v1/vector_stores/{}/search": {},
            "/dify/retrieval": {"knowledge_id": name},
        }
        if place in PLACES:
            body = {**PLACES[place], **named.get(place, {"collections": [name]}), **asked}
            answer = client.post(place.format(name), json=body) if place[0] == "/" else mcp(client, place, **body)
        elif place == "selected":
            body = {**PLACES["/api/collect"], "selectedCollections": [selected | asked]}
            answer = client.post("/api/collect", json=body)
        elif place == "?where":
            query = {"query": QUESTION, "collections": name, **written(asked)}
            answer = client.get("/tools/rag_context_search", query_string=query)
        elif place.startswith("/console"):
            fields, visitor = {"q": QUESTION, "collection": name, **written(asked)}, Visitor(app)
            is_search = place == "/console/ask"
            answer = visitor.get("/ask", **fields) if is_search else visitor.post("/answer", of=FORM, **fields)
            return re.sub("<[^>]+>", "", answer.text)
        else:
            options = [part for key, each in written(asked).items() for part in (f"--{key}", each)]
            command = [place, QUESTION, "--collection", name, "--min-relevance", "0", "--json", *options]
            with served(app) as url:
                return CliRunner().invoke(main, [*command, "--url", url]).output
        return answer.get_data(as_text=True)

    return ask


@pytest.mark.parametrize("place", [*PLACES, *FACES])
def test_only_what_matches_is_found(ask, place):
    def found(**asked):
        said = ask(place, **asked)
        return {each for each in ("pdf", "markdown") if f"the {each} file" in said}

    assert found() == {"pdf", "markdown"}
    assert found(where={"kind": "pdf"}) == {"pdf"}
    assert found(where={"$not": {"kind": "pdf"}}) == {"markdown"}
    assert found(where={"kind": "none"}) == set()


def test_a_value_that_a_page_narrows_to_holds_for_its_answer(app, name):
    visitor = Visitor(app)
    links = [each.get("href", "") for each in visitor.read("/ask", q=QUESTION, collection=name).all("a")]
    page = Reader(visitor.client.get(next(each for each in links if "only=" in each and "pdf" in each)).text)
    fields = {each["name"]: each["value"] for each in page.all("input") if each["name"] in ("q", "where", "collection")}
    assert {"kind": "pdf"} in json.loads(fields["where"])["$or"]
    said = Reader(visitor.post("/answer", of=FORM, **fields).text).text
    assert ("the pdf file" in said, "markdown" in said) == (True, False)


KNOWN = {
    "/api/rag/search": {"filters"},
    "/v1/vector_stores/{}/search": {"filters"},
    "/api/chat": {"ragFilters"},
    "/dify/retrieval": {"metadata_condition"},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_filter_that_is_not_known_or_not_understood_is_refused_by_its_name(ask, place):
    names = {"filter", "filters", "metadata_filter", "metadata_condition", "ragFilters", "wher"}
    for name in names - KNOWN.get(place, set()):
        for beside in ({}, {"where": {"kind": "pdf"}}):
            said = ask(place, **beside, **{name: {"kind": "pdf"}})
            assert re.search(rf"'{name}[': ]+(did you mean|nothing is filtered)", said), said
    assert re.search(r"\$like", ask(place, where={"kind": {"$like": "p"}}))


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/chat", {"message": QUESTION, "useRag": True, "ragFilters": {"kind": "pdf"}}, "ragFilters.kind"),
        ("/api/chat", {"message": QUESTION, "where": {"kind": "pdf"}}, "where"),
        ("/api/rag/search", {"query": QUESTION, "filters": {"kind": "pdf"}}, "filters.kind"),
        ("/rerank", {"query": QUESTION, "documents": [{"id": "a", "text": "b"}], "where": {"kind": "pdf"}}, "where"),
        ("/api/documents?where=%7B%7D", None, "where"),
    ],
)
def test_where_nothing_is_filtered_a_filter_is_refused(client, path, body, field):
    answer = client.get(path) if body is None else client.post(path, json=body)
    assert (answer.status_code, answer.json["details"]["field"]) == (400, field)
