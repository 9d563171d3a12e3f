"""gunicorn's threaded worker, with bounds on how long clients may take.

gunicorn gives a thread to every connection. Here the event loop collects the head of each request first, so that a slow
client costs no thread; it closes connections after their last answer, and it takes no more connections than its share.
Everything else is decided where routes are known, above all which requests wait for which (`wrapper/web/lanes.py`).

gunicorn has settings and hooks for none of this. These methods are overridden, and these tests need them:

- `accept`, `TConn.init`: TLS whose handshakes keep neither the event loop nor a thread waiting
  (`tests/durability/load/test_tls_clients.py`, `tests/wrapper/serving/test_tls_sockets.py`)
- `accept`: a socket that gives its client up (`tests/durability/load/test_slow_clients.py`, "body", "stream",
  "answer"), the fair share (`tests/wrapper/serving/test_fair_share.py`), and going on when no more files can be opened
  (`tests/durability/load/test_overload.py`)
- `on_client_socket_readable`, `on_pending_socket_readable`, `murder_pending`, `TConn.init`: heads without a thread
  (`tests/durability/load/test_slow_clients.py`, "nothing", "head", and which clients are told so)
- `finish_request`: an answer that is the last arrives although the body was not read
  (`tests/wrapper/routes/test_connections.py`, "without an end"; `tests/durability/load/test_overload.py`), and
  requests that arrive before the answer to the previous one are answered in order (the same, "before the answers")
- `handle`, `enqueue_req`: a thread that has answered waits a moment for its client's next request
  (`tests/wrapper/serving/test_gunicorn_worker.py`)
- `handle_request`: the head of an answer goes with what follows it (`tests/wrapper/serving/test_gunicorn_worker.py`)
- `handle_error`: what is no HTTP is refused in the service's own words, without the keys that it may hold
  (`tests/access/test_hostile.py`)
- `handle_exit`: nobody who waits for something to happen delays the end of a service that stops
- `_cap_keepalive`: a client that has sent no whole request does not delay the end of a service that stops
  (`tests/wrapper/serving/test_gunicorn_worker.py`)

The hook `pre_request` (`wrapper/serving/gunicorn_config.py`) is enough to make the answer to a body that is given up
the connection's last.

`BUILT_ON` names the parts of gunicorn that this needs; a gunicorn without them stops the start.
"""

from __future__ import annotations

import errno
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from gunicorn import __version__ as gunicorn_version
from gunicorn.http import get_parser
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, LimitRequestHeaders, ParseException
from gunicorn.workers.gthread import TConn, ThreadWorker

from schemas.errors import LongHeadersError, MalformedRequestError, PlainRequestError, RagError, SlowClientError
from schemas.settings import read_wrapper_settings
from wrapper.serving.fair_share import FairShare
from wrapper.serving.tls_sockets import TlsSocket
from wrapper.web.slow_clients import Patience, PatientSocket

if TYPE_CHECKING:
    from wrapper.serving.certificate import Certificate

HEAD_BYTES = 256 * 1024
"""The longest head that the event loop collects; a longer one goes to a thread as it is, which refuses it."""
READ_BYTES = 64 * 1024
STOPPING_SECONDS = 2.0
"""The time that a connection without a request is kept when the service is being stopped."""
STAYING_SECONDS = 0.01
"""The time for which a thread that has answered waits for its client's next request. A request that comes in it is not
handed from thread to thread twice, which takes longer than a short answer itself (`docs/performance.md`)."""
PAUSE_WITHOUT_FILES_SECONDS = 0.01
"""The pause between attempts to accept a connection when no more files can be opened."""
FAULTS_OF_ANSWERS = (InvalidResponseHeader, InvalidResponseHeaderName)
LINE_BYTES = 1024
"""The part of a head that tells by which protocol a client asks."""
_PATH = re.compile(rb"\S+ (?:https?://[^/\s]*)?(/[^\s?]*)")
END_OF_HEAD = re.compile(rb"\r?\n\r?\n")

BUILT_ON: dict[type, dict[str, tuple[str, ...]]] = {
    TConn: {
        "__init__": ("self", "cfg", "sock", "client", "server"),
        "init": ("self",),
        "close": ("self", "graceful"),
    },
    ThreadWorker: {
        "accept": ("self", "listener"),
        "enqueue_req": ("self", "conn"),
        "handle": ("self", "conn"),
        "handle_request": ("self", "req", "conn"),
        "finish_request": ("self", "conn", "fs"),
        "on_client_socket_readable": ("self", "conn", "client"),
        "on_pending_socket_readable": ("self", "conn", "client"),
        "murder_pending": ("self",),
        "_cap_keepalive": ("self", "deadline"),
        "handle_error": ("self", "req", "client", "addr", "exc"),
        "handle_exit": ("self", "sig", "frame"),
    },
}
"""Methods of gunicorn and their parameters. The worker also needs the attributes `timeout`, `parser.unreader` and
`data_ready` of a connection, and `poller`, `nr_conns`, `keepalived_conns` and `pending_conns` of the worker."""


class Connection(TConn):
    """A client's connection. `head` is the part of its next request that no thread has yet."""

    parser: Any

    def __init__(self, cfg: Any, sock: PatientSocket, client: Any, server: Any) -> None:
        super().__init__(cfg, sock, client, server)
        self.data_ready = True  # no thread has to wait for the first byte
        self.head = bytearray()
        self.has_request = False

    def read_head(self) -> bool:
        """Read what has arrived. Return False when the client has gone."""
        try:
            content = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.add_to_head(content + self.sock.take_held())
        return bool(content)

    def take_ahead(self) -> None:
        """Take what has been read of the next request: a client may send it before it has the answer to the last."""
        self.add_to_head(self.parser.unreader.take_buffered() + self.sock.take_held())

    def comes_again(self, seconds: float) -> bool:
        """Return whether the next request is here, waiting for it for so long."""
        self.take_ahead()
        if not self.has_request and not self.head and self.sock.is_readable(seconds):
            self.sock.setblocking(False)
            self.read_head()
        return self.has_request

    def add_to_head(self, content: bytes) -> None:
        begin = max(0, len(self.head) - 3)
        self.head += content
        self.has_request = len(self.head) > HEAD_BYTES or END_OF_HEAD.search(self.head, begin) is not None

    def init(self) -> None:
        if self.parser is None:
            # gunicorn would speak TLS itself here, where a slow handshake has a thread.
            self.parser = get_parser(self.cfg, self.sock, self.client)
        super().init()
        self.sock.begin(bytes(self.head[:LINE_BYTES]))
        self.parser.unreader.unread(bytes(self.head))
        self.head.clear()
        self.has_request = False


class Worker(ThreadWorker):
    """One process's event loop and threads; the methods here run on the event loop, except `handle`,
    `handle_request` and `handle_error`.

    `share` is set before the fork, where connections are to be spread over several workers, and `certificate` where the
    service speaks TLS.
    """

    share: FairShare | None = None
    certificate: Certificate | None = None

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Exit with a sentence when gunicorn lacks a part that this worker needs."""
        super().check_config(cfg, log)
        missing = missing_parts()
        if missing:
            raise SystemExit(f"gunicorn {gunicorn_version} does not fit: {', '.join(missing)} is not as in 27.0")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings = read_wrapper_settings()
        self.client_seconds = settings.client_wait_seconds
        self.patience = Patience(settings.client_wait_seconds, settings.waiting_threads)
        self.parting: deque[Connection] = deque()
        self.handled = 0
        """The number of connections that have a thread, or wait for one."""

    def accept(self, listener: socket.socket) -> None:
        if self.share is not None and self.share.leaves_to_others(self.nr_conns):
            return
        try:
            plain, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            time.sleep(PAUSE_WITHOUT_FILES_SECONDS)
            return
        if self.certificate is None:
            client = PatientSocket(plain.detach(), self.patience)
        else:
            client = TlsSocket(plain.detach(), self.patience, self.certificate.context)
        self.nr_conns += 1
        self.tell_share()
        self._await_head(Connection(self.cfg, client, address, listener.getsockname()))

    def on_client_socket_readable(self, conn: Connection, client: object) -> None:
        self.poller.unregister(conn.sock)
        self.keepalived_conns.remove(conn)
        self._receive(conn)

    def on_pending_socket_readable(self, conn: Connection, client: object) -> None:
        self.poller.unregister(conn.sock)
        self.pending_conns.remove(conn)
        self._receive(conn, conn.timeout)

    def enqueue_req(self, conn: Connection) -> None:
        self.handled += 1
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> bool:
        """Answer a request, and those that follow soon while half of the threads are free; runs in one of them."""
        is_kept = super().handle(conn)
        while is_kept and self.alive and self.handled <= self.cfg.threads // 2 and conn.comes_again(STAYING_SECONDS):
            is_kept = super().handle(conn)
        return is_kept

    def handle_request(self, req: Any, conn: Connection) -> bool:
        is_kept: bool = super().handle_request(req, conn)
        conn.sock.finish()
        return is_kept

    def finish_request(self, conn: Connection, fs: Future[bool]) -> None:
        self.handled -= 1
        if fs.cancelled() or fs.exception() is not None or not fs.result():
            self._part(conn)
            return
        conn.take_ahead()
        conn.sock.setblocking(False)
        if conn.has_request:
            self.enqueue_req(conn)
        elif conn.head:
            self._await_head(conn)
        else:
            seconds = self.cfg.keepalive if self.alive else STOPPING_SECONDS
            self._watch(conn, self.keepalived_conns, self.on_client_socket_readable, seconds)

    def murder_pending(self) -> None:
        if self.certificate is not None:
            self.certificate.look()
        self.tell_share()  # the library's own loop has just closed the connections that were kept too long
        for conn in _expired(self.pending_conns):
            self.poller.unregister(conn.sock)
            if conn.head:
                self._refuse(conn, SlowClientError("The client sends its request too slowly"))
            else:
                self._drop(conn)
        for conn in _expired(self.parting):
            self.poller.unregister(conn.sock)
            self._drop(conn)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that cannot be read, in a request's thread; the library answers what has failed here."""
        client.give_up_head()
        if not isinstance(exc, ParseException) or isinstance(exc, FAULTS_OF_ANSWERS):
            super().handle_error(req, client, addr, exc)
            return
        self.log.warning("Invalid request from ip=%s: %s", addr[0] if addr else "", exc)
        kind = LongHeadersError if isinstance(exc, LimitRequestHeaders) else MalformedRequestError
        with suppress(OSError):
            client.sendall(b"".join(self._refusal(kind(str(exc)), client.asked)))

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        app = getattr(self, "wsgi", None)
        if app is not None:
            app.extensions["rag.service"].stop_waiting()

    def _cap_keepalive(self, deadline: float) -> None:
        super()._cap_keepalive(deadline)
        for conn in (*self.pending_conns, *self.parting):
            conn.timeout = min(conn.timeout, deadline)

    def tell_share(self) -> None:
        """Tell the other workers how many connections this one has."""
        if self.share is not None:
            self.share.tell(self.nr_conns)

    def _receive(self, conn: Connection, deadline: float | None = None) -> None:
        if not conn.read_head():
            if isinstance(conn.sock, TlsSocket) and conn.sock.speaks_plainly:
                self._refuse(conn, PlainRequestError(), conn.sock.send_plainly)
            else:
                self._drop(conn)
        elif conn.has_request:
            self.enqueue_req(conn)
        else:
            self._await_head(conn, deadline)

    def _await_head(self, conn: Connection, deadline: float | None = None) -> None:
        self._watch(conn, self.pending_conns, self.on_pending_socket_readable, self.client_seconds, deadline)

    def _refuse(self, conn: Connection, error: RagError, send: Callable[[bytes], object] | None = None) -> None:
        """Answer without a thread, by `send` if given; it is the connection's last answer."""
        head, content = self._refusal(error, bytes(conn.head))
        try:
            (send or conn.sock.send)(head if conn.head.startswith(b"HEAD ") else head + content)
        except OSError:
            self._drop(conn)
        else:
            self._part(conn)

    def _refusal(self, error: RagError, asked: bytes) -> tuple[bytes, bytes]:
        """Return the head and the body of the answer to a request that is refused here, in the words of the protocol
        whose path it begins with, and count it."""
        # Imported late: the master imports this module, and need not know the application.
        from wrapper.observing import metrics
        from wrapper.web.error_statuses import early_response

        path = _PATH.match(asked)
        response = early_response(self.wsgi, error, "" if path is None else path[1].decode(errors="replace"))
        response.headers["Connection"] = "close"
        head = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
        metrics.REFUSED_REQUESTS.labels(error.code).inc()
        return f"HTTP/1.1 {response.status}\r\n{head}\r\n".encode(), response.get_data()

    def _part(self, conn: Connection) -> None:
        """End a connection from our side. Closed with something unread, it would be reset, and our answer lost."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
        else:
            self._watch(conn, self.parting, self._on_parting_socket_readable, self.client_seconds)

    def _on_parting_socket_readable(self, conn: Connection, client: object) -> None:
        if not conn.sock.discard():
            self.poller.unregister(conn.sock)
            self.parting.remove(conn)
            self._drop(conn)

    def _watch(
        self,
        conn: Connection,
        queue: deque[Connection],
        then: Callable[[Connection, object], None],
        seconds: float,
        deadline: float | None = None,
    ) -> None:
        """Call `then` when there is something to read.

        The connection is in `queue` until then, or until its time is over.
        """
        conn.timeout = deadline or time.monotonic() + (seconds if self.alive else min(seconds, STOPPING_SECONDS))
        queue.append(conn)
        awaited = selectors.EVENT_READ | (selectors.EVENT_WRITE if conn.sock.owes_now() else 0)
        self.poller.register(conn.sock, awaited, partial(then, conn))

    def _drop(self, conn: Connection) -> None:
        self.nr_conns -= 1
        self.tell_share()
        conn.close()


def missing_parts() -> list[str]:
    """Return the parts of `BUILT_ON` that this gunicorn lacks or has with other parameters."""
    return [
        f"{kind.__name__}.{name}"
        for kind, methods in BUILT_ON.items()
        for name, parameters in methods.items()
        if not hasattr(kind, name) or tuple(signature(getattr(kind, name)).parameters) != parameters
    ]


def _expired(queue: deque[Connection]) -> list[Connection]:
    now = time.monotonic()
    gone = [conn for conn in queue if conn.timeout <= now]
    for conn in gone:
        queue.remove(conn)
    return gone
