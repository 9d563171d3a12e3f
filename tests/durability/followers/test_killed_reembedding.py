"""A service is killed in the midst of a re-embedding, beside writes: it goes on, and nothing is lost."""

import pytest

from tests.durability.processes import kill, kill_everything, leader
from tests.durability.workload import add, ask
from tests.support.live import eventually
from tests.support.model_server import DIMENSION, openai_answer, vector

DOCUMENTS = 700
NAME = "docs"


def answers_until(models, calls):
    """Let the model answer that many calls, and none after them."""
    left = [calls]

    def answer(body):
        left[0] -= 1
        if left[0] < 0:
            models.is_down = True
        return openai_answer(body)

    models.script[:] = [answer] * (calls + 1)


def fill(service, *numbers):
    add(service, NAME, [{"id": f"d{n}", "text": f"Text {n}", "embedding": [1.0, n, 0.0]} for n in numbers], status=None)


def state(service):
    return ask(service, "GET", f"/collections/{NAME}/reembed")


def assert_goes_on_from(service, done):
    told = state(service)
    assert (told["status"], told["documents_done"]) == ("running", done)


def test_a_re_embedding_goes_on_from_where_it_was_when_a_worker_and_then_everything_was_killed(serve, models_up):
    service = serve(workers=2)
    config = {"url": f"{models_up.url}/v1", "model": "newer"}
    connection = {"id": "newer", "type": "embedding", "provider": "openai", "config": config}
    ask(service, "POST", "/api/connections", json=connection)
    ask(service, "POST", "/collections", json={"name": NAME})
    for start in range(0, DOCUMENTS, 100):
        fill(service, *range(start, start + 100))
    answers_until(models_up, 8)
    ask(service, "POST", f"/collections/{NAME}/reembed", json={"connection": "newer"})
    eventually(lambda: models_up.is_down, complaint=service.tail)
    eventually(lambda: state(service)["documents_done"] == 200, complaint=service.tail)
    fill(service, *range(DOCUMENTS, DOCUMENTS + 50))
    ask(service, "DELETE", f"/collections/{NAME}/documents", json={"ids": ["d0", f"d{DOCUMENTS - 1}"]})
    doomed = leader(service)
    kill(doomed)
    eventually(lambda: leader(service) not in (None, doomed), complaint=service.tail)
    assert_goes_on_from(service, 200)
    kill_everything(service)
    service = serve(workers=2)
    assert_goes_on_from(service, 200)
    models_up.script.clear()
    asked_before = len(models_up.requests)
    models_up.is_down = False
    eventually(lambda: state(service)["status"] == "complete", complaint=service.tail)
    collection = ask(service, "GET", f"/collections/{NAME}")
    assert (collection["count"], collection["dimension"]) == (DOCUMENTS + 48, DIMENSION)
    lines = ask(service, "GET", f"/collections/{NAME}/documents?limit=1000&include=embedding")
    found = {each["id"]: each for each in lines["documents"]}
    assert found.keys() == {f"d{n}" for n in range(1, DOCUMENTS + 50)} - {f"d{DOCUMENTS - 1}"}
    for each in found.values():
        assert each["embedding"] == pytest.approx(vector(each["text"]).tolist())
    # What was embedded before the kill is not embedded again, but for the part that was under way.
    embedded = {text for request in models_up.requests[asked_before:] for text in request.body["input"]}
    assert {f"Text {n}" for n in range(200)}.isdisjoint(embedded)
