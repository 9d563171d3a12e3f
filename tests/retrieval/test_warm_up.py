"""All workers load the model as soon as one of them embeds."""

from contextlib import contextmanager
from threading import Event

from retrieval.warm_up import WarmUp
from schemas.errors import UnavailableError
from tests.support.live import PATIENCE_SECONDS
from tests.support.logs import logs_of


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
