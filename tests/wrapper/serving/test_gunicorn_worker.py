"""The installed gunicorn has what the worker builds on, and a gunicorn without it is refused."""

from collections import deque
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from wrapper.serving.gunicorn_worker import BUILT_ON, Connection, Worker, missing_parts


def test_this_gunicorn_fits():
    assert missing_parts() == []


def test_what_is_overridden_is_named():
    """A replaced method of gunicorn that is missing in the list could change unnoticed."""
    for kind, base in ((Connection, Connection.__mro__[1]), (Worker, ThreadWorker)):
        overridden = {name for name in vars(kind) if name in dir(base) and callable(vars(kind)[name])}
        assert overridden - {"__init__"} <= BUILT_ON[base].keys()


def test_a_gunicorn_that_does_not_fit_stops_the_start(monkeypatch):
    monkeypatch.setattr(ThreadWorker, "finish_request", lambda self, conn: None)
    monkeypatch.delattr(ThreadWorker, "_cap_keepalive")
    config = Config()
    with pytest.raises(SystemExit, match=r"ThreadWorker\.finish_request, ThreadWorker\._cap_keepalive"):
        Worker.check_config(config, Logger(config))


def test_an_incomplete_request_does_not_keep_a_service_from_stopping():
    worker = Worker.__new__(Worker)
    queues = worker.keepalived_conns, worker.pending_conns, worker.parting = deque(), deque(), deque()
    for queue in queues:
        queue += [SimpleNamespace(timeout=2.0), SimpleNamespace(timeout=600.0)]
    worker._cap_keepalive(5.0)
    assert [[conn.timeout for conn in queue] for queue in queues] == [[2.0, 5.0]] * 3
