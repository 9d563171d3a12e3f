"""A client's connection over TLS, as threads and the event loop see it."""

import socket
import ssl
import threading
from contextlib import ExitStack

import pytest

from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.serving.certificates import write_pair
from wrapper.serving.certificate import tls_context
from wrapper.serving.tls_sockets import TlsSocket
from wrapper.web.slow_clients import Patience

LARGE = bytes(range(256)) * (1 << 14)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def context(pair):
    return tls_context(str(pair.cert), str(pair.key))


class Client:
    """The other end: TLS in memory, so that a test can send any bytes of it at any time."""

    def __init__(self, plain, pair):
        self.plain = plain
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=pair.authority)
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake(self, step):
        """Shake hands; `step` lets our end go on."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.plain.sendall(self.outgoing.read())
                step()
                self.incoming.write(self.plain.recv(1 << 16))
            else:
                self.plain.sendall(self.outgoing.read())
                return step()

    def encrypted(self, content):
        for start in range(0, len(content), 1 << 14):
            self.tls.write(content[start : start + (1 << 14)])
        return self.outgoing.read()

    def read_all(self):
        """Return what comes until the end, and whether the server said that it is the end."""
        found = bytearray()
        while True:
            try:
                if not (piece := self.tls.read(1 << 16)):
                    return bytes(found), True
                found += piece
            except ssl.SSLWantReadError:
                if not (piece := self.plain.recv(1 << 16)):
                    return bytes(found), False
                self.incoming.write(piece)
            except ssl.SSLZeroReturnError:
                return bytes(found), True


@pytest.fixture
def connect(context, pair):
    """`connect(seconds)`: (our socket, which does not block, its client, which has not said anything)."""
    with ExitStack() as stack:

        def start(seconds=600.0):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            plain = stack.enter_context(socket.create_connection(listening.getsockname(), timeout=PATIENCE_SECONDS))
            ours = stack.enter_context(TlsSocket(listening.accept()[0].detach(), Patience(seconds, 1), context))
            ours.setblocking(False)
            return ours, Client(plain, pair)

        yield start


@pytest.fixture
def connected(connect):
    """The same after the handshake."""

    def start(seconds=600.0):
        ours, client = connect(seconds)
        client.shake(lambda: nothing_yet(ours))
        return ours, client

    return start


def nothing_yet(ours):
    """Let the event loop read, which finds a part of the handshake only."""

    def is_read():
        try:
            ours.recv(100)
        except BlockingIOError:
            return not ours.owes_now()
        raise AssertionError("there was something")

    eventually(is_read)


def received(ours, size=1 << 16):
    def read():
        try:
            return [ours.recv(size)]
        except BlockingIOError:
            return None

    return eventually(read)[0]


def test_a_client_that_says_nothing_makes_nobody_wait(connect):
    ours, client = connect()
    with pytest.raises(BlockingIOError):
        ours.recv(100)
    client.plain.sendall(b"\x16\x03\x01")  # the beginning of a hello
    nothing_yet(ours)


def test_what_comes_byte_by_byte_is_read_once_it_is_whole(connected):
    ours, client = connected()
    *begun, last = client.encrypted(b"GET")
    for byte in begun:
        client.plain.sendall(bytes([byte]))
        nothing_yet(ours)
    client.plain.sendall(bytes([last]))
    assert received(ours) == b"GET"


def test_nothing_that_was_decrypted_is_left_where_no_poll_sees_it(connected):
    ours, client = connected()
    client.plain.sendall(client.encrypted(b"x" * 40_000))
    found = received(ours, 10) + ours.take_held()
    while len(found) < 40_000:
        found += received(ours, 10) + ours.take_held()
    assert found == b"x" * 40_000
    with pytest.raises(BlockingIOError):
        ours.recv(10)


def test_a_large_body_and_a_large_answer_arrive_whole(connected):
    ours, client = connected()
    ours.setblocking(True)
    sending = threading.Thread(target=lambda: client.plain.sendall(client.encrypted(LARGE)))
    sending.start()
    body = bytearray()
    while len(body) < len(LARGE):
        body += ours.recv(1 << 20)
    sending.join()
    assert body == LARGE

    def answer():
        ours.sendall(LARGE)
        ours.shutdown(socket.SHUT_WR)

    answering = threading.Thread(target=answer)
    answering.start()
    content, is_end = client.read_all()
    answering.join()
    assert (content == LARGE, is_end) == (True, True)


def test_an_end_of_either_side_is_seen_and_ours_says_so_first(connected):
    ours, client = connected()
    assert not ours.is_gone()
    client.plain.close()
    eventually(ours.is_gone)
    ours, client = connected()
    client.plain.shutdown(socket.SHUT_WR)
    assert received(ours) == b"", "it ended without leave"
    ours, client = connected()
    ours.close()
    assert client.read_all() == (b"", True)


def test_a_client_that_takes_its_leave_is_at_its_end(connected):
    ours, client = connected()
    client.plain.sendall(client.encrypted(b"the last"))
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.plain.sendall(client.outgoing.read())
    assert received(ours) == b"the last"
    assert received(ours) == b""


def test_an_end_of_our_side_drains_what_still_comes(connected):
    ours, client = connected()
    ours.send(b"the last answer")
    ours.shutdown(socket.SHUT_WR)
    client.plain.sendall(client.encrypted(b"x" * 100_000))
    assert client.read_all() == (b"the last answer", True)
    assert ours.discard()
    client.plain.close()
    eventually(lambda: not ours.discard())


@pytest.mark.parametrize(
    ("said", "is_plain"), [(b"GET / HTTP/1.1\r\n\r\n", True), (b"\0" * 100, False), (b"SSH-2.0-OpenSSH_9.2\r\n", False)]
)
def test_what_is_no_tls_ends_the_connection(connect, said, is_plain):
    ours, client = connect()
    client.plain.sendall(said)
    with pytest.raises(ConnectionResetError):
        received(ours)
    assert ours.speaks_plainly == is_plain
    if is_plain:
        ours.send_plainly(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert client.plain.recv(100) == b"HTTP/1.1 400 Bad Request\r\n\r\n"


def test_a_record_that_was_changed_on_the_way_ends_the_connection(connected):
    ours, client = connected()
    record = bytearray(client.encrypted(b"DELETE /collections/a"))
    record[-1] ^= 1
    client.plain.sendall(record)
    with pytest.raises(ConnectionResetError):
        received(ours)


def test_an_unsent_answer_is_watched_for_until_it_is_taken(connected):
    ours, client = connected()
    sent = ours.send(LARGE[:1])
    while not ours.owes_now():
        sent += ours.send(LARGE[: 1 << 16])
    taken = threading.Thread(target=client.read_all)
    taken.start()

    def is_sent():
        with pytest.raises(BlockingIOError):
            ours.recv(10)
        return not ours.owes_now()

    eventually(is_sent)
    ours.shutdown(socket.SHUT_WR)
    taken.join()
