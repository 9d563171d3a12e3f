"""The fallback chain with real failures: the embedding service stopped, the text index gone, the catalogue locked."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from uuid import uuid4

import pytest

from retrieval.context.fallback import BREAKER_OPEN, EMPTY, VECTOR
from schemas.settings import RetrievalSettings
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.support.model_server import Answer
from wrapper.catalog.sqlite import database

THRESHOLD, FOR_EVER_SECONDS = 5, 10 * PATIENCE_SECONDS
"""How long a question to a locked catalogue waits here, and for how long the breaker stays open unless a test lets that
time pass: whoever waited for it would never answer."""
WORDS = "Backups are kept for thirty days."


@pytest.fixture(scope="module")
def open_app(app_of_models):
    """`open_app(**retrieval)`: a service that has one document."""

    def start(**settings):
        retrieval = RetrievalSettings(
            breaker_threshold=THRESHOLD, breaker_timeout_seconds=FOR_EVER_SECONDS, **{"cache_ttl_seconds": 0} | settings
        )
        app = app_of_models(chats=False, retrieval=retrieval)
        body = {"content": WORDS, "metadata": {"tags": ["retention"]}}
        assert app.test_client().post("/tools/rag_context_index", json=body).status_code == 200
        return app

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "BUSY_TIMEOUT_SECONDS", FOR_EVER_SECONDS)
        yield start


@pytest.fixture(scope="module")
def app(open_app):
    """A service that goes to another level for a failure only, however slow this machine is."""
    return open_app(context_vector_seconds=PATIENCE_SECONDS, context_text_seconds=PATIENCE_SECONDS)


@pytest.fixture
def data_dir(app):
    return app.extensions["rag.service"].settings.data_dir


@pytest.fixture
def search(app):
    client = app.test_client()

    def send():
        """Ask a new question each time, whose vector is in no cache."""
        answer = client.post("/tools/rag_context_search", json={"query": f"how long are backups kept {uuid4()}"})
        assert answer.status_code == 200
        return answer.json

    return send


def let_breaker_try(app):
    """Let the time pass for which the breaker is open."""
    breaker = app.extensions["rag.layers"].context.breaker
    before = breaker._clock
    breaker._clock = lambda: before() + FOR_EVER_SECONDS + 1


@pytest.fixture
def closed(app, search):
    """Begin and end with a closed breaker."""

    def is_closed():
        let_breaker_try(app)
        return search()["fallbackLevel"] == VECTOR

    eventually(is_closed)
    yield
    eventually(is_closed)


@contextmanager
def embeddings_fail(models):
    with pytest.MonkeyPatch.context() as patch:
        refusal = Answer(401, b"{}", {"Content-Type": "application/json"})
        patch.setitem(models.routes, "/v1/embeddings", lambda body: refusal)
        yield


@contextmanager
def text_index_gone(data_dir):
    with closing(sqlite3.connect(data_dir / "catalog.sqlite", isolation_level=None)) as catalog:
        catalog.execute("ALTER TABLE word_segments RENAME TO kept_words")
        try:
            yield
        finally:
            catalog.execute("ALTER TABLE kept_words RENAME TO word_segments")


# The bytes of SQLite's write-ahead log index that hold the readers' locks; another process takes them all.
LOCK_READERS_OUT = """
import fcntl, sys
with open(sys.argv[1], "r+b") as index:
    fcntl.lockf(index, fcntl.LOCK_EX, 5, 123)
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def locked(data_dir):
    """Let nobody begin to read the catalogue."""
    command = [sys.executable, "-c", LOCK_READERS_OUT, data_dir / "catalog.sqlite-shm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            holder.stdin.close()


def levels(answers):
    return [each["fallbackLevel"] for each in answers]


@pytest.mark.usefixtures("closed")
def test_without_both_there_is_nothing_and_then_the_breaker_opens(search, models, data_dir, app):
    with embeddings_fail(models), text_index_gone(data_dir):
        failed = [search() for _ in range(THRESHOLD)]
        refused = search()
    assert levels(failed) == [EMPTY] * THRESHOLD
    assert [(each["results"], each["totalIndexed"], each["circuitBreakerOpen"]) for each in failed] == [
        ([], 0, False)
    ] * THRESHOLD
    assert (refused["fallbackLevel"], refused["circuitBreakerOpen"], refused["fallback"]) == (
        BREAKER_OPEN,
        True,
        True,
    )
    assert (refused["results"], refused["totalIndexed"]) == ([], 1)
    health = app.test_client().post("/tools/rag_context_health").json
    assert (health["healthy"], health["circuitBreakerOpen"]) == (False, True)
    assert app.test_client().get("/health").json["circuitBreakerOpen"] is True


@pytest.mark.usefixtures("closed")
class TestLockedCatalogue:
    @pytest.fixture
    def app(self, without_text):
        """A service whose levels have the usual limits, beyond which nobody waits for the catalogue."""
        return without_text

    @pytest.mark.slow
    def test_every_search_is_answered_in_time_and_health_does_not_hang(self, app, search, data_dir):
        with locked(data_dir), ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda _: search(), range(16)))
            health = app.test_client().post("/tools/rag_context_health").json
        assert set(levels(answers)) == {EMPTY, BREAKER_OPEN}
        assert all((each["results"], each["totalIndexed"]) == ([], 0) for each in answers)
        assert (health["status"], health["healthy"], health["indexedDocuments"]) == ("unhealthy", False, None)
        assert health["storage"]["error"] == "No answer within 2 s"


@pytest.fixture(scope="module")
def without_text(open_app):
    """A service that neither searches by words nor keeps questions."""
    return open_app(text_fallback=False, log_queries=False)


@pytest.fixture
def ask(without_text):
    let_breaker_try(without_text)
    client = without_text.test_client()
    return lambda query: client.post("/tools/rag_context_search", json={"query": query}).json


@pytest.fixture
def its_catalogue(without_text):
    path = without_text.extensions["rag.service"].settings.data_dir / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as catalog:
        yield catalog


def test_turned_off_the_search_by_words_has_failed(ask, models):
    eventually(lambda: ask("Is the breaker closed?")["fallbackLevel"] == VECTOR)
    with embeddings_fail(models):
        found = levels(ask(f"backups {number}") for number in range(THRESHOLD + 1))
    assert (found[0], found[-1], set(found)) == (EMPTY, BREAKER_OPEN, {EMPTY, BREAKER_OPEN})


def test_questions_stand_nowhere_when_they_are_not_to_be_kept_and_metrics_that_cannot_be_kept_change_no_answer(
    without_text, ask, its_catalogue
):
    eventually(lambda: ask("a secret question")["fallbackLevel"] == VECTOR)
    assert without_text.test_client().post("/tools/rag_context_stats", json={}).json["totalQueries"] > 0
    assert its_catalogue.execute("SELECT DISTINCT query FROM search_metrics").fetchall() == [("",)]
    its_catalogue.execute("DROP TABLE search_metrics")
    answers = [ask("backups") for _ in range(3)]
    assert [(each["fallbackLevel"], each["results"][0]["content"]) for each in answers] == [(VECTOR, WORDS)] * 3
