"""What works in the background: a re-embedding knows nothing of the one that was given up before it, and all workers load the
model as soon as one of them embeds."""

from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace

from retrieval.reembedding import BEHIND, FIRST_PAUSE_SECONDS, WATCHED_PARTS, Reembedder
from retrieval.warm_up import WarmUp
from schemas.errors import UnavailableError
from schemas.storage.reembedding import Mark, Part, Status
from tests.support.live import PATIENCE_SECONDS
from tests.support.logs import logs_of

NAME = "/.reembedding/docs"
MARK = Mark(Status.RUNNING)


class ToldStorage:
    """A storage of one re-embedding without end, each part of which leaves as much to do as the one before."""

    leads = staticmethod(lambda: True)

    def __init__(self):
        self.key = 1
        self.parts = []
        self.stored = []

    def under_way(self):
        return {NAME: self.key}

    def next_part(self, name):
        part = Part(name, self.key, "docs", "c1", "newer", [], {}, [], MARK, MARK, False, 5, 1, 0)
        self.parts.append(part.key)
        return part

    def store(self, part, vectors):
        self.stored.append((part.key, part.after.error))
        return False

    def tell(self, part, error, *, is_final):
        pass


class ToldConnections:
    """Connections to a model that can be out of reach."""

    is_down = False

    def open(self, connection_id, kind):
        if self.is_down:
            raise UnavailableError("nobody answers")
        return SimpleNamespace(model="newer")


def told_reembedder():
    """Return a storage, the connections and what re-embeds the one by the others."""
    storage, connections, half = ToldStorage(), ToldConnections(), FIRST_PAUSE_SECONDS / 2
    return storage, connections, Reembedder(storage, connections, embeddings=None, background=None, clock=lambda: half)


def test_one_that_begins_anew_does_not_count_as_behind_for_what_the_last_one_left():
    storage, _, reembedder = told_reembedder()
    for _ in range(WATCHED_PARTS + 1):
        reembedder.step()
    assert storage.stored[-1] == (1, BEHIND)
    storage.key = 2
    for _ in range(WATCHED_PARTS):
        reembedder.step()
    assert storage.stored[WATCHED_PARTS + 1 :] == [(2, None)] * WATCHED_PARTS
    reembedder.step()
    assert storage.stored[-1] == (2, BEHIND)


def test_one_that_begins_anew_does_not_rest_for_a_failure_of_the_last_one():
    storage, connections, reembedder = told_reembedder()
    connections.is_down = True
    reembedder.step()
    reembedder.step()
    assert storage.parts == [1]  # the second time it rests
    connections.is_down = False
    storage.key = 2
    reembedder.step()
    assert storage.parts == [1, 2]
    assert storage.stored == [(2, None)]


@contextmanager
def worker(mark, loads, *, is_due=lambda: False):
    warm_up = WarmUp(mark)
    warm_up.begin(is_due, loads)
    yield warm_up
    warm_up.close()


def test_a_worker_that_embeds_tells_all_of_them_and_a_failure_is_logged_and_stops_nothing(tmp_path, monkeypatch):
    first, second = Event(), Event()
    with worker(tmp_path / "mark", first.set) as embeds, worker(tmp_path / "mark", second.set):
        embeds.needed()
        assert first.wait(PATIENCE_SECONDS)
        assert second.wait(PATIENCE_SECONDS)
    said = logs_of(monkeypatch, "retrieval.warm_up")

    def fail():
        raise UnavailableError("The weights are not there")

    with worker(tmp_path / "mark", fail, is_due=lambda: True):
        pass
    assert [each["reason"] for each in said] == ["The weights are not there"]


def test_nothing_is_loaded_where_nothing_is_embedded_and_at_once_after_a_restart_or_where_there_is_something_to_ask(
    tmp_path,
):
    asked, begun_again = Event(), Event()
    with worker(tmp_path / "mark", begun_again.set):
        pass
    assert not begun_again.is_set()
    with worker(tmp_path / "other", asked.set, is_due=lambda: True):
        assert asked.wait(PATIENCE_SECONDS)
    with worker(tmp_path / "mark", lambda: None) as before:
        before.needed()
    with worker(tmp_path / "mark", begun_again.set):
        assert begun_again.wait(PATIENCE_SECONDS)
