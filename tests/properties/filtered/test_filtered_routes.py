"""A key with a filter is answered, on every route and by every tool that reads, as a service would answer that holds the
matching documents alone."""

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.access.table import ROUTES as TABLE
from schemas.access.table import TOOLS as TABLE_OF_TOOLS
from schemas.settings import AccessSettings, RegistrySettings, RetrievalSettings
from tests.properties.filtered.reads import SENTENCES
from tests.properties.filtered.routes import (
    ADMIN,
    CONTEXT,
    HIDDEN,
    ROUTES,
    RULES,
    STORE,
    TEAMS,
    TEXTS,
    TOOLS,
    VECTORS,
    Asking,
)
from tests.properties.filtered.twins import comparable, copied, resolved
from tests.properties.profiles import PROFILE, at_most
from tests.support.apps import running_app
from tests.support.live import PATIENCE_SECONDS

CHROMA = "/api/v2/tenants/{tenant}"
RECORDS = f"{CHROMA}/databases/{{database}}/collections/{{collection_id}}"
OF_NO_DOCUMENT = {
    "POST /v1/embeddings",
    "GET /v1/files",
    "GET /v1/files/{file_id}",
    "GET /v1/files/{file_id}/content",
    f"GET {STORE}/file_batches/{{batch_id}}",
    f"GET {STORE}/file_batches/{{batch_id}}/files",
    f"GET {CHROMA}",
    f"GET {CHROMA}/databases",
    f"GET {CHROMA}/databases/{{database}}",
    f"POST {CHROMA}/databases/{{database}}/collections",
    f"POST {RECORDS}/search",
    f"POST {RECORDS}/fork",
    f"GET {RECORDS}/fork_count",
    f"POST {RECORDS}/functions/attach",
    f"GET {RECORDS}/functions/{{name}}",
    f"POST {RECORDS}/attached_functions/{{name}}/detach",
    f"POST {RECORDS}/conditional/get",
    f"POST {RECORDS}/conditional/commit",
    "GET /databases",
    "GET /aliases",
    "GET /aliases/{alias}",
    "GET /api/connections/providers",
    "GET /api/connections/providers/{provider}",
    "GET /api/connections/providers/{provider}/schema",
    "GET /api/jobs/{job_id}",
    "GET /api/watchers/{name}",
    "POST /rerank",
    "POST /api/judgements",
    "GET /api/judgements",
    "DELETE /api/judgements/{judgement_id}",
    "GET /api/query-set",
    "POST /api/bench",
    "GET /api/bench",
    "GET /api/bench/{bench_id}",
    "DELETE /api/bench/{bench_id}",
    "GET /collections/{name}/changes",
}
"""Routes that answer nothing of documents, or of jobs, watchers and judgements of others, which nobody sees; and the
one of changes, which refuses keys with a filter."""
RULE = {"source": "handbook", "doc_type": "ops", "last_update_date": "2026-01-31"}
PATIENT = RetrievalSettings(
    mcp_write=True,
    retrieve_seconds=PATIENCE_SECONDS,
    context_vector_seconds=PATIENCE_SECONDS,
    context_text_seconds=PATIENCE_SECONDS,
)
"""On a slow machine, an answer must not be another because a part of it came too late."""
KEYS = AccessSettings(access="keys", api_key=ADMIN)
WRITES = st.one_of(
    st.tuples(st.just("text"), st.integers(1, 5), st.lists(st.sampled_from(SENTENCES[:6]), min_size=1, max_size=4)),
    st.tuples(st.just("text"), st.integers(1, 5), st.lists(st.sampled_from(SENTENCES[:6]), min_size=1, max_size=4)),
    st.tuples(st.just("rule"), st.integers(1, 3), st.lists(st.sampled_from(SENTENCES[:6]), min_size=1, max_size=2)),
    st.tuples(st.just("context"), st.integers(1, 3), st.lists(st.sampled_from(SENTENCES[:6]), min_size=1, max_size=2)),
    st.tuples(st.just("vector"), st.integers(1, 9), st.lists(st.integers(-3, 3), min_size=4, max_size=4).filter(any)),
    st.tuples(st.just("move"), st.integers(0, 40), st.sampled_from((TEXTS, TEXTS, RULES, VECTORS))),
    st.tuples(st.just("delete"), st.integers(0, 40), st.just(TEXTS)),
)
SEEN = st.sampled_from(
    ({"team": "red"}, {"team": {"$ne": "blue"}}, {"team": "red", "chunk_index": {"$lt": 2}}, {"secret": "s"})
)


class Two:
    """The service that holds everything, and the other, which holds what a filter matches."""

    def __init__(self, everything, alone):
        self.everything, self.alone = everything, alone
        self.ids: dict[str, list[str]] = {}
        self.documents: list[str] = []

    def begin(self, where):
        self.ids, self.documents = {}, []
        for app in (self.everything, self.alone):
            for name in self._admin("GET", "/collections").json["collections"]:
                if app is self.everything:
                    self._admin("DELETE", f"/collections/{name['name']}")
        for name in (VECTORS, HIDDEN):
            self._admin("POST", "/collections", json={"name": name, "metric": "l2"})
        hidden = {"id": "h", "text": "Secret key", "metadata": {"team": "blue", "hid": 1}, "embedding": [1, 0, 0, 0]}
        self._admin("POST", f"/collections/{HIDDEN}/documents", json={"documents": [hidden]})
        self.keys = [self._key(self.everything, where), self._key(self.alone, None)]

    def write(self, kind, number, what):
        team = TEAMS[number % 2]
        own = {"team": team} | ({"secret": "s"} if number % 3 == 0 else {})
        if kind == "text":
            text = "\n\n".join(f"# Part {place}\n\n{each}" for place, each in enumerate(what))
            body = {"source": "wiki", "path": f"/{number}", "title": f"Title {number}", "text": text, "tags": ["t"]}
            self._admin("POST", "/api/rag/ingest", json=body | {"metadata": own})
        elif kind == "rule":
            content = "\n\n".join(f"# Rule {place}\n\n{each}" for place, each in enumerate(what))
            rule = {"filename": f"{number}.md", "content": content, "metadata": RULE | own}
            self._admin("POST", "/api/rag/documents:batch", json={"documents": [rule]})
        elif kind == "context":
            body = {"content": " ".join(what), "source": f"s{number}", "metadata": own}
            self._admin("POST", "/tools/rag_context_index", json=body)
        elif kind == "vector":
            document = {"id": f"v{number}", "text": SENTENCES[number], "metadata": own, "embedding": what}
            self._admin("POST", f"/collections/{VECTORS}/documents", json={"documents": [document]})
        elif self.ids.get(what):
            chosen = self.ids[what][number % len(self.ids[what])]
            path = f"/collections/{what}/documents/{chosen}"
            if kind == "delete":
                self._admin("DELETE", f"/collections/{what}/documents", json={"ids": [chosen]})
            else:
                self._admin("PATCH", path, json={"metadata": {"team": TEAMS[(number + 1) % 2]}})

    def settle(self, where):
        copied(self.everything, self.alone, where)
        for name in (TEXTS, RULES, CONTEXT, VECTORS, HIDDEN):
            page = self._admin("GET", f"/collections/{name}/documents?limit=1000").json
            found = page.get("documents", [])
            self.ids[name] = [each["id"] for each in found]
            if name in (TEXTS, RULES):
                told = [each["metadata"].get("document_id") for each in found]
                self.documents += [each for each in told if each and each not in self.documents]

    def ask(self, method, path, how):
        answers = []
        for app, key in zip((self.everything, self.alone), self.keys, strict=True):
            headers = {"Authorization": f"Bearer {key}"}
            answers.append(
                comparable(app.test_client().open(resolved(path, app), method=method, headers=headers, **how))
            )
        return answers

    def _key(self, app, where):
        _, key = app.extensions["rag.access"].stored.create("reader", Grant(frozenset({Scope.READ}), where=where))
        return key

    def _admin(self, method, path, **how):
        return self.everything.test_client().open(path, method=method, headers={"X-API-Key": ADMIN}, **how)


@pytest.fixture(scope="module", params=["sqlite"] if PROFILE == "ci" else ["sqlite", "postgresql"])
def two(request, tmp_path_factory, processes):
    def running(name, **settings):
        return running_app(
            tmp_path_factory.mktemp(name),
            access=KEYS,
            retrieval=PATIENT,
            registry=RegistrySettings(collect_seconds=PATIENCE_SECONDS),
            **settings,
        )

    if request.param == "sqlite":
        with running("everything") as everything, running("alone") as alone:
            yield Two(everything, alone)
        return
    with (
        request.getfixturevalue("postgres").catalogue() as url,
        request.getfixturevalue("postgres").catalogue() as other,
        running("everything", catalog_url=url) as everything,
        running("alone", catalog_url=other) as alone,
    ):
        yield Two(everything, alone)


def test_every_route_and_tool_that_reads_is_asked():
    read = {row for row, access in TABLE.items() if access.needs is Scope.READ}
    assert read == (ROUTES.keys() | OF_NO_DOCUMENT) - {"POST /tools/{tool}", "GET /tools/{tool}", "POST /mcp"}
    assert {name for name, access in TABLE_OF_TOOLS.items() if access.needs is Scope.READ} == set(TOOLS)


@settings(at_most(3), phases=[Phase.generate])
@given(st.data(), SEEN, st.lists(st.lists(WRITES, min_size=8, max_size=14), min_size=1, max_size=2))
def test_a_filtered_key_is_answered_as_by_a_service_with_the_matching_documents(two, data, where, planned):
    two.begin(where)
    for writes in planned:
        for write in writes:
            two.write(*write)
        two.settle(where)
        for row in sorted(ROUTES):
            path, how = data.draw(_requests(row, two))
            note(f"{row}: {path} {how}")
            filtered, alone = two.ask(row.partition(" ")[0], path, how)
            assert filtered == alone


@st.composite
def _requests(draw, row, two):
    return ROUTES[row](Asking(draw, two))
