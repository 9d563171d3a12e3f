"""The installed gunicorn has what the worker builds on, and a gunicorn without it is refused; how long threads stay, what a
worker does about its memory, and how many threads its numeric library has."""

import gc
import os
import socket
import subprocess
import sys
import weakref
from collections import deque
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import ThreadWorker

from tests.support.live import PATIENCE_SECONDS
from wrapper.serving import freed_memory
from wrapper.serving.gunicorn_worker import BUILT_ON, Connection, Worker, missing_parts
from wrapper.web.slow_clients import MOST_JOINED_BYTES, Patience, PatientSocket


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


REQUEST = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def answering(monkeypatch):
    """A worker of four threads, a connection with a first request, its client, and what is done after each answer."""
    theirs, client = socket.socketpair()
    conn = Connection(Config(), PatientSocket(theirs.detach(), Patience(5.0, 1)), ("127.0.0.1", 1), ("127.0.0.1", 2))
    worker = Worker.__new__(Worker)
    worker.cfg, worker.alive, worker.handled = SimpleNamespace(threads=4), True, 1
    after, paths = [], []

    def answer(self, conn):
        conn.sock.setblocking(True)
        conn.init()
        paths.append(next(conn.parser).path)
        if after:
            after.pop(0)()
        return True

    monkeypatch.setattr(ThreadWorker, "handle", answer)
    client.sendall(REQUEST)
    assert conn.read_head()
    assert conn.has_request
    yield SimpleNamespace(worker=worker, conn=conn, client=client, after=after, paths=paths)
    client.close()
    conn.sock.close()


def test_a_thread_answers_the_requests_that_follow_soon(answering):
    answering.after += [lambda: answering.client.sendall(REQUEST.replace(b"live", b"ready")), lambda: None]
    assert answering.worker.handle(answering.conn)
    assert answering.paths == ["/live", "/ready"]


def test_requests_that_came_before_the_answer_are_answered_in_order(answering):
    answering.client.sendall(REQUEST.replace(b"live", b"a") + REQUEST.replace(b"live", b"b"))
    assert answering.worker.handle(answering.conn)
    assert answering.paths == ["/live", "/a", "/b"]


def test_a_thread_leaves_a_client_that_sends_nothing_or_a_part_or_goes(answering):
    part = REQUEST[:20]
    answering.after += [lambda: None, lambda: answering.client.sendall(part), answering.client.close]
    assert answering.worker.handle(answering.conn)
    assert (answering.paths, bytes(answering.conn.head)) == (["/live"], b"")
    answering.client.sendall(REQUEST)
    assert answering.conn.read_head()
    assert answering.worker.handle(answering.conn)
    assert (answering.paths, bytes(answering.conn.head)) == (["/live"] * 2, part)
    answering.client.sendall(REQUEST[20:])
    assert answering.conn.read_head()
    assert answering.worker.handle(answering.conn)
    assert not answering.conn.has_request
    assert not answering.conn.read_head()


def test_a_thread_does_not_wait_while_few_are_free_or_the_service_stops(answering):
    answering.worker.handled = 3
    answering.after += [lambda: answering.client.sendall(REQUEST)]
    assert answering.worker.handle(answering.conn)
    assert answering.paths == ["/live"]
    answering.worker.handled = 1
    assert answering.conn.comes_again(5.0)
    answering.after += [lambda: answering.client.sendall(REQUEST), lambda: setattr(answering.worker, "alive", False)]
    assert answering.worker.handle(answering.conn)
    assert answering.paths == ["/live"] * 3


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def received(client):
    try:
        return client.recv(1 << 20, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("body", [b"{}", b"x" * (MOST_JOINED_BYTES + 1)])
def test_the_head_of_an_answer_goes_with_what_follows_it(answering, body):
    answering.conn.sock.begin()
    answering.conn.sock.sendall(HEAD)
    assert received(answering.client) == b""
    answering.conn.sock.sendall(body)
    answering.conn.sock.sendall(b"more")
    assert received(answering.client) == HEAD + body + b"more"


def test_a_head_that_nothing_follows_is_sent_with_the_end_of_the_answer(answering, monkeypatch):
    def answer(self, req, conn):
        conn.sock.sendall(HEAD)
        return True

    monkeypatch.setattr(ThreadWorker, "handle_request", answer)
    answering.conn.sock.begin()
    assert answering.worker.handle_request(None, answering.conn)
    assert received(answering.client) == HEAD


def test_an_answer_that_failed_before_its_head_was_sent_is_only_the_refusal(answering, monkeypatch):
    monkeypatch.setattr(
        ThreadWorker, "handle_error", lambda self, req, client, addr, exc: client.sendall(b"HTTP/1.1 500 No\r\n\r\n")
    )
    answering.conn.sock.begin()
    answering.conn.sock.sendall(HEAD)
    answering.worker.handle_error(None, answering.conn.sock, None, ValueError())
    assert received(answering.client) == b"HTTP/1.1 500 No\r\n\r\n"


def run(script, **environ):
    """Run a script in a process of its own."""
    ours = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True, env={**ours, **environ}
    )
    return done.stdout.split(), done.stderr


class Node:
    """Refers to itself."""

    def __init__(self):
        self.itself = self


@pytest.mark.parametrize(
    ("request_", "is_large"),
    [
        ({}, False),
        ({"CONTENT_LENGTH": ""}, False),
        ({"CONTENT_LENGTH": "131071"}, False),
        ({"CONTENT_LENGTH": "131072"}, True),
        ({"CONTENT_LENGTH": "100", "HTTP_CONTENT_ENCODING": "gzip"}, True),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, True),
    ],
)
def test_memory_freed_by_requests_that_may_be_large_is_given_back_once(monkeypatch, request_, is_large):
    trimmed = []
    monkeypatch.setattr(freed_memory, "trim", lambda: trimmed.append(1))
    gc.disable()
    try:
        left = weakref.ref(Node())
        freed_memory.note_answered(request_)
        freed_memory.give_back()
        freed_memory.give_back()
        assert ((left() is None), len(trimmed)) == (is_large, is_large)
    finally:
        gc.enable()


KEPT = """
import gc
from wrapper.serving.freed_memory import keep_for_good

gc.disable()
was_kept, kept = gc.get_freeze_count(), []
kept.append(kept)
keep_for_good()
print(gc.isenabled(), gc.get_freeze_count() > was_kept, any(each is kept for each in gc.get_objects()))
"""


def test_what_is_kept_is_left_out_of_the_collections_that_go_on():
    assert run(KEPT)[0] == ["True", "True", "False"]


NUMERIC_WORK = """
import os
import sys
import wrapper.serving.gunicorn_config
import interfaces.compose
import numpy
matrix = numpy.ones((2_000, 2_000), dtype="f4")
matrix @ matrix
print(len(os.listdir("/proc/self/task")), file=sys.__stdout__)  # what is printed otherwise is a line of the log
"""


@pytest.mark.slow
def test_the_numeric_library_of_a_worker_has_one_thread(tmp_path):
    """More would wait for each other, spinning: a hundred simultaneous questions took three times as long."""
    assert run(NUMERIC_WORK, RAG_DATA_DIR=str(tmp_path))[0] == ["1"]
