"""Thumbs beside passages become judgements, these a query set, and a measurement says how well the search finds it."""

import io
import zipfile

import pytest

from interfaces.console.pages.quality import compared, runs_of
from retrieval.bench.query_set import read_query_set
from schemas.contracts.judgements import MAX_GIVEN_CHARACTERS
from tests.interfaces.console.conftest import ADMIN, store_files
from tests.support.live import eventually

TEXTS = {
    "backups": "Backups run every night at two.",
    "travel": "Take the train where there is one.",
    "hours": "The door opens at nine.",
}
QUESTION = "When does the door open?"
MANY = "\n".join(f'{{"_id": "{n}", "text": "x"}}' for n in range(1_001))
ONE, OF_ONE = '{"_id": "1", "text": "x"}\n', "1\ta\t1\n"


@pytest.fixture(scope="module")
def documents(app):
    """The ids of three documents of the collection `judged`, by name."""
    store_files(app, "judged", **TEXTS)
    found = app.test_client().post("/collections/judged/documents/search", json={}, headers=ADMIN).json["documents"]
    ids = {each["text"].strip(): each["metadata"].get("document_id", each["id"]) for each in found}
    return {name: next(ids[each] for each in ids if text in each) for name, text in TEXTS.items()}


@pytest.fixture
def judge(client, documents):
    def judge(name, grade=1, question=QUESTION):
        body = {"question": question, "collection": "judged", "document_id": documents[name], "grade": grade}
        answer = client.post("/api/judgements", json=body)
        assert answer.status_code == 201, answer.json
        return answer.json

    return judge


@pytest.fixture(autouse=True)
def _nothing_judged(client):
    yield
    for each in client.get("/api/judgements").json["judgements"]:
        assert client.delete(f"/api/judgements/{each['id']}").status_code == 200
    for each in client.get("/api/bench").json["benches"]:
        client.delete(f"/api/bench/{each['id']}")


def test_what_is_not_there_is_said_and_not_judged(client, documents):
    body = {"question": QUESTION, "collection": "judged", "document_id": documents["hours"], "grade": 1}
    for change in ({"document_id": "nobody"}, {"collection": "nobody"}):
        assert client.post("/api/judgements", json=body | change).status_code == 404
    assert client.get("/api/judgements").json["total"] == 0
    for method, path in (("DELETE", "/api/judgements"), ("GET", "/api/bench"), ("DELETE", "/api/bench")):
        answer = client.open(f"{path}/nobody", method=method)
        code = "judgement_not_found" if path == "/api/judgements" else "bench_not_found"
        assert (answer.status_code, answer.json["code"]) == (404, code)


def test_judgements_are_a_query_set_that_bench_reads(client, judge, documents, tmp_path):
    judge("hours")
    judge("travel", grade=0)
    judge("backups", question="When do backups run?")
    answer = client.get("/api/query-set?collection=judged")
    assert answer.mimetype == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.data)) as archive:
        archive.extractall(tmp_path)
    found = read_query_set(tmp_path)
    assert [(each.text, dict(each.judgements)) for each in found.queries] == [
        ("When do backups run?", {documents["backups"]: 1}),
        (QUESTION, {documents["travel"]: 0, documents["hours"]: 1}),
    ]
    assert TEXTS["travel"] in found.corpus.read_text()


def measured(client, **given):
    """Return a measurement of one judged question once it is done."""
    begun = client.post("/api/bench", json={"collection": "judged", **given})
    assert (begun.status_code, begun.json["status"], begun.json["judged"]) == (202, "running", 1)
    place = f"/api/bench/{begun.json['id']}"
    done = eventually(lambda: (found := client.get(place).json)["status"] != "running" and found)
    assert (done["status"], done["message"]) == ("done", None)
    return done


def test_a_measurement_has_the_figures_of_each_run_and_question(client, judge):
    judge("hours")
    done = measured(client)
    assert [each["name"] for each in done["runs"]] == ["fused", "semantic", "lexical", "fused-scores", "fused-rrf"]
    lexical = next(each for each in done["runs"] if each["name"] == "lexical")
    assert (lexical["ndcg_at_10"], lexical["recall_at_10"], lexical["failures"]) == (1, 1, 0)
    [asked] = done["questions"]
    assert (asked["question"], asked["relevant"], asked["runs"]["lexical"]["mrr"]) == (QUESTION, 1, 1)
    assert done["progress"]["done"] == done["progress"]["searches"] == 6


def test_without_a_relevant_document_there_is_nothing_to_measure(client, judge):
    judge("hours", grade=0)
    of_others = {"collection": "judged", "query_set": {"queries": ONE, "qrels": OF_ONE}}
    for answer in (
        client.post("/api/bench", json={"collection": "judged"}),
        client.post("/api/bench", json=of_others),
        client.get("/api/query-set?collection=judged"),
    ):
        assert (answer.status_code, answer.json["code"]) == (409, "nothing_judged")
    assert client.post("/api/bench", json={"collection": "nobody"}).status_code == 404
    assert client.get("/api/query-set?collection=nobody").status_code == 404


def test_a_query_set_of_ones_own_is_measured_against_the_collection(client, documents):
    queries = '\ufeff{"_id": "q1", "text": "When does the door open?"}\r\n\n{"_id": "q2", "text": "Unjudged"}\n'
    qrels = f"query-id\tcorpus-id\tscore\r\nq1\t{documents['hours']}\t2\r\nq1\tnobody\t-1"
    given = {"queries": queries, "qrels": qrels}
    done = measured(client, query_set=given)
    assert next(each for each in done["runs"] if each["name"] == "lexical")["ndcg_at_10"] == 1
    assert client.get("/api/judgements").json["total"] == 0


@pytest.mark.parametrize(
    ("queries", "qrels", "file", "line", "field"),
    [
        ("nonsense", OF_ONE, "queries.jsonl", 1, None),
        (ONE + ONE, OF_ONE, "queries.jsonl", 2, "_id"),
        ('{"_id": "1", "text": "' + "x" * 2_001 + '"}', OF_ONE, "queries.jsonl", 1, "text"),
        (ONE, "1\ta", "qrels/test.tsv", 1, None),
        (ONE, OF_ONE + "2\ta\t1", "qrels/test.tsv", 2, "query-id"),
        (ONE, "1\ta\t" + "9" * 400, "qrels/test.tsv", 1, "score"),
        (ONE, "1\ta\t0", "qrels/test.tsv", None, None),
        (ONE, "", "qrels/test.tsv", None, None),
        pytest.param(MANY, "\n".join(f"{n}\ta\t1" for n in range(1_001)), "qrels/test.tsv", None, None, id="many"),
        pytest.param(ONE + "\n" * MAX_GIVEN_CHARACTERS, OF_ONE, "queries.jsonl", None, None, id="large queries"),
        pytest.param(ONE, "\n" * MAX_GIVEN_CHARACTERS + OF_ONE, "qrels/test.tsv", None, None, id="large qrels"),
    ],
)
def test_a_wrong_line_of_a_query_set_is_named(client, documents, queries, qrels, file, line, field):
    asked = {"collection": "judged", "query_set": {"queries": queries, "qrels": qrels}}
    answer = client.post("/api/bench", json=asked)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_query_set"), answer.json
    told = answer.json["details"]
    assert (told["file"], told.get("line"), told.get("field")) == (file, line, field)
    if line is not None:
        assert answer.json["message"].startswith(f"{file}:{line}: ")
    assert client.get("/api/bench").json["benches"] == []


def test_a_query_set_is_measured_by_its_files(admin, client, documents):
    lines = "".join(f'{{"_id": "{n}", "text": "When does the door open & close? {n}"}}\n' for n in range(2_000))

    def sent(queries, qrels, **more):
        files = {"queries": (io.BytesIO(queries), "q.jsonl"), "qrels": (io.BytesIO(qrels), "test.tsv")}
        return admin.post("/quality/measure", of="/quality", collection="judged", **(files | more))

    begun = sent(lines.encode(), f"0\t{documents['hours']}\t1".encode())
    assert begun.status_code == 303, begun.text
    bench_id = begun.location.rpartition("=")[2]
    eventually(lambda: client.get(f"/api/bench/{bench_id}").json["status"] == "done")
    for queries, qrels, words in (
        (b"", b"1\ta\t1", "queries.jsonl: it is missing or empty"),
        (ONE.encode(), b"\n1\t\xff\t1", "qrels/test.tsv:2: is not UTF-8"),
        (b"nonsense", b"1\ta\t1", "queries.jsonl:1: is not a JSON object"),
    ):
        answer = sent(queries, qrels)
        assert answer.status_code == 400
        assert words in answer.text
    assert sent(b"x", b"x", form_token="wrong", token="wrong").status_code == 400


def test_the_receipt_shows_how_each_collection_was_searched_and_there_are_thumbs_without_scripts(
    admin, documents, client
):
    page = admin.read("/ask", q=QUESTION, collection="judged", why="1")
    assert "judged: every vector that matches, without the index, 3 compared (scan)" in page.text
    assert "(scan)" not in admin.read("/ask", q=QUESTION, collection="judged").text
    page = admin.read("/ask", q=QUESTION, collection="judged")
    buttons = {each["aria-label"] for each in page.all("button") if "data-grade" in each}
    assert buttons == {"Relevant", "Not relevant"}
    form = {"question": QUESTION, "collection": "judged", "document_id": documents["hours"], "anchor": "hit-1"}
    answer = admin.post("/quality/judge", of="/quality", **form, chosen="judged", grade="1")
    assert answer.status_code == 303
    assert answer.location.startswith("/console/ask?q=When")
    assert answer.location.endswith("#hit-1")
    [kept] = client.get("/api/judgements").json["judgements"]
    buttons = admin.read("/ask", q=QUESTION, collection="judged").all("button")
    [pressed] = [each for each in buttons if each.get("aria-pressed") == "true"]
    assert (pressed["name"], pressed["value"], pressed["aria-label"]) == ("forget", kept["id"], "Relevant")
    admin.post("/quality/judge", of="/quality", back="quality", forget=kept["id"])
    assert client.get("/api/judgements").json["total"] == 0


def test_an_oracle_that_failed_is_told_above_the_passages(admin, documents, failing_oracle):
    assert failing_oracle in admin.read("/ask", q=QUESTION, collection="judged").text


def test_the_page_of_quality_measures_and_compares(admin, client, judge):
    assert "Nothing has been judged yet." in admin.read("/quality").text
    judge("hours")
    ids = []
    for _ in range(2):
        answer = admin.post("/quality/measure", of="/quality", collection="judged")
        ids.append(answer.location.rpartition("=")[2])
        eventually(lambda: client.get(f"/api/bench/{ids[-1]}").json["status"] == "done")
    page = admin.read("/quality")
    assert QUESTION in page.text
    assert [each["value"] for each in page.all("input") if each.get("name") == "bench"] == ids[::-1]
    assert admin.get("/quality/export", collection="judged").data.startswith(b"PK")
    one = admin.read("/quality/measured", bench=ids[0])
    assert "nDCG@10 of fused, compared with semantic" in one.text
    two = admin.read("/quality/measured", bench=ids)
    assert "0 better, 0 worse, 1 alike" in two.text
    assert any("q=When" in each["href"] for each in two.all("a"))
    assert admin.post(f"/quality/end/{ids[0]}", of="/quality").status_code == 303
    assert admin.get("/quality/measured", bench=ids[0]).status_code == 404


def _bench(created_at, **by_question):
    figures = {"recall_at_10": 1, "mrr": 1, "latency_ms": {"p50": 5, "p95": 10}}
    return {
        "collection": "docs",
        "created_at": created_at,
        "runs": [{"name": "fused", "ndcg_at_10": 0.5, **figures}],
        "questions": [
            {"question": question, "runs": {"fused": {"ndcg_at_10": value}}} for question, value in by_question.items()
        ],
    }


def test_differences_come_largest_first_and_only_of_questions_that_both_have():
    benches = [_bench("2026-01-01T00:00", a=0.5, b=1, c=0.2), _bench("2026-01-02T00:00", a=0.6, b=0.1, d=1)]
    found = compared(benches, "fused")
    assert found["changes"] == [("b", 1, 0.1), ("a", 0.5, 0.6)]
    assert (found["better"], found["worse"]) == (1, 1)
    assert compared(benches, "nothing") is None
    assert runs_of(benches, "nothing") == []
    assert [title for title, _ in runs_of(benches, "fused")] == ["docs, 2026-01-01 00:00", "docs, 2026-01-02 00:00"]
