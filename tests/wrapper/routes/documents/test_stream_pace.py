"""How far a stream of documents may run ahead of the index: as its caller wants, and never beyond the bound."""

import json

import pytest

from wrapper import writing
from wrapper.catalog.index_state import outbox
from wrapper.web import line_streams
from wrapper.web.line_streams import PARTS_BEHIND
from wrapper.writing import Writing

LINES = 24
LINES_PER_PART = 2
PARTS = LINES // LINES_PER_PART


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(line_streams, "LINES_PER_TRANSACTION", LINES_PER_PART)


@pytest.fixture
def opened(open_client):
    """A client of a service without an engine, whose writes would wait for an hour, with one collection."""
    with open_client(write_wait_seconds=3600.0) as client:
        client.post("/collections?wait=commit", json={"name": "abc"})
        yield client


@pytest.fixture
def waits(opened, monkeypatch):
    """`waits(answer)` has every wait for the index answered by `answer(entry)`, and returns a list of (entry, number of
    documents stored by then)."""

    def waits(answer):
        seen = []

        def wait(self, entry):
            seen.append((entry, opened.get("/collections/abc").json["count"]))
            return answer(entry)

        monkeypatch.setattr(Writing, "wait_until_indexed", wait)
        return seen

    return waits


@pytest.fixture
def catalog(opened):
    return opened.application.extensions["rag.service"].catalog


@pytest.fixture(params=["documents", "import"])
def send(request, opened):
    """`send(**arguments)` sends the lines by either route, and returns the answer and what means success."""

    def send(**arguments):
        lines = (
            json.dumps({"id": f"d{number}", "text": "", "embedding": [1.0, float(number)]}) for number in range(LINES)
        )
        path = f"/collections/abc/{request.param}"
        answer = opened.post(path, data="\n".join(lines), content_type="application/x-ndjson", query_string=arguments)
        return answer, {"documents": 201, "import": 200}[request.param]

    return send


def test_a_stream_that_waits_runs_a_few_parts_ahead_and_ends_when_the_index_has_it_all(send, waits):
    seen = waits(lambda entry: True)
    answer, success = send()
    assert (answer.status_code, answer.json["indexed"], answer.json["count"]) == (success, True, LINES)
    entries = [entry for entry, _ in seen]
    assert entries == sorted(entries)
    ahead = [stored - LINES_PER_PART * place for place, (_, stored) in enumerate(seen[:-1])]
    assert ahead == [LINES_PER_PART * (PARTS_BEHIND + 1)] * (PARTS - PARTS_BEHIND)
    assert entries[-1] - entries[0] == PARTS - 1


def test_what_the_engine_cannot_take_is_named_whatever_part_it_is_in(send, waits, monkeypatch):
    waits(lambda entry: True)
    refused = {"d0", "d1", "d11", f"d{LINES - 1}"}
    monkeypatch.setattr(Writing, "set_aside_of", lambda self, name, ids: sorted(refused.intersection(ids)))
    answer, _ = send()
    assert (answer.status_code, answer.json["indexed"]) == (202, False)
    assert set(answer.json["set_aside"]) == refused


@pytest.mark.parametrize("wait", ["commit", "index"])
def test_at_the_bound_a_stream_waits_for_room_and_goes_on(send, waits, catalog, monkeypatch, wait):
    monkeypatch.setattr(writing, "MAX_LAG_DOCUMENTS", 6)
    lags = []

    def follow(entry):
        with catalog.read() as transaction:
            lags.append(outbox.lag(transaction))
            applied = [each.id for each in outbox.oldest(transaction, limit=100) if each.id <= entry]
        catalog.commit(lambda transaction: outbox.remove(transaction, applied))
        return True

    waits(follow)
    answer, success = send(wait=wait)
    assert (answer.status_code, answer.json["count"]) == (success, LINES)
    assert max(lags) * LINES_PER_PART <= 6 + LINES_PER_PART


def test_a_stream_for_which_no_room_is_made_is_refused_and_says_how_far_it_came(send, waits, opened, monkeypatch):
    monkeypatch.setattr(writing, "MAX_LAG_DOCUMENTS", 6)
    seen = waits(lambda entry: False)
    answer, _ = send(wait="commit")
    assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json["details"]["count"] == 6
    assert opened.get("/collections/abc").json["count"] == 6
    assert len(seen) == 1
    again, _ = send(wait="commit")
    assert (again.status_code, again.json["details"]["count"]) == (503, 0)
    assert len(seen) == 2
