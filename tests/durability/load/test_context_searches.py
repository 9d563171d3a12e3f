"""600 context searches of 8 clients while the engine is killed twice are each answered and counted.

`make soak` makes 10,000 of them (RAG_SOAK_SEARCHES), none of which may take longer than 2 seconds.
"""

import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import pytest

from tests.durability.workload import ask
from tests.support.live import PATIENCE_SECONDS, eventually

SEARCHES = int(os.environ.get("RAG_SOAK_SEARCHES", "600"))
CLIENTS, LAST = 8, 20
MOST_SECONDS = 2.0 if "RAG_SOAK_SEARCHES" in os.environ else PATIENCE_SECONDS
TOPICS = ("backups", "holidays", "travel", "invoices", "passwords", "printers", "meetings", "budgets")


@pytest.mark.timeout(300 + SEARCHES // 10)
def test_every_search_is_answered_and_counted(serve):
    service = serve(workers=2)
    for topic in TOPICS:
        body = {"content": f"What there is to know of {topic}.", "sessionId": topic, "source": "tests"}
        ask(service, "POST", "/tools/rag_context_index", json=body)

    # After this many searches by vector in a row, every worker has loaded the model.
    eventually(lambda: all(_search(service, "warm up", n)["fallbackLevel"] == 1 for n in range(10)))
    before = _statistics(service)
    answers, slowest, faults = [], [0.0], []

    def search(client):
        with service.session() as session:
            for number in range(SEARCHES // CLIENTS):
                topic = TOPICS[(client + number) % len(TOPICS)]
                began = time.monotonic()
                answer = session.post(
                    f"{service.url}/tools/rag_context_search",
                    json={"query": f"{topic} {client} {number}", "sessionId": topic, "agent": f"client-{client}"},
                    timeout=PATIENCE_SECONDS,
                )
                slowest[0] = max(slowest[0], time.monotonic() - began)
                found = answer.json()
                answers.append(found)
                contents = [each["content"] for each in found["results"]]
                if answer.status_code != 200 or contents != [f"What there is to know of {topic}."]:
                    faults.append(found)

    clients = [threading.Thread(target=search, args=(client,)) for client in range(CLIENTS)]
    for client in clients:
        client.start()
    for part in (4, 2):
        eventually(lambda part=part: len(answers) > SEARCHES // part)
        engine = eventually(lambda: service.engine_pid)
        os.kill(engine, signal.SIGKILL)
        eventually(lambda engine=engine: service.engine_pid not in (None, engine), complaint=service.tail)
    for client in clients:
        client.join()
    assert not faults
    assert slowest[0] < MOST_SECONDS
    levels = Counter((each["fallbackLevel"], each["fallback"], each["circuitBreakerOpen"]) for each in answers)
    assert set(levels) <= {(1, False, False), (2, True, False)}
    after = _statistics(service)
    assert after["totalQueries"] - before["totalQueries"] == SEARCHES
    assert [after["queriesByAgent"][f"client-{client}"] for client in range(CLIENTS)] == [SEARCHES // CLIENTS] * CLIENTS
    fallbacks = levels[2, True, False]
    assert round(after["fallbackRate"] * after["totalQueries"]) == round(
        before["fallbackRate"] * before["totalQueries"] + fallbacks
    )
    for number in range(LAST):
        _search(service, "the last ones", number)
    service.stop()
    with closing(sqlite3.connect(service.data_dir / "catalog.sqlite")) as catalog:
        (kept,) = catalog.execute("SELECT COUNT(*) FROM search_metrics").fetchone()
    assert kept == after["totalQueries"] + LAST
    print(f"{SEARCHES} searches, the slowest took {slowest[0] * 1e3:.0f} ms, {fallbacks} went by words")


def _search(service, query, number):
    return ask(service, "POST", "/tools/rag_context_search", json={"query": f"{query} {number}"})


def _statistics(service):
    return ask(service, "GET", "/tools/rag_context_stats")
