"""A client's connection as threads see it."""

import select
import socket
from contextlib import ExitStack, suppress
from itertools import count

import pytest

from tests.support.live import eventually
from wrapper.web.slow_clients import Patience, PatientSocket

LARGE = bytes(1 << 26)
"""More than any buffer between two sockets holds."""


@pytest.fixture
def connected():
    """`connected(seconds, **options)`: (a patient socket, its client, which never blocks)."""
    with ExitStack() as stack:

        def connect(seconds, **options):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            client = stack.enter_context(socket.create_connection(listening.getsockname()))
            client.setblocking(False)
            ours = PatientSocket(listening.accept()[0].detach(), Patience(seconds, 1), **options)
            return stack.enter_context(ours), client

        yield connect


def test_a_client_is_gone_when_it_has_closed_even_with_something_unread(connected):
    ours, client = connected(1.0)
    assert not ours.is_gone()
    client.sendall(b"something")
    assert not ours.is_gone()
    client.close()
    eventually(ours.is_gone)
    assert ours.recv(100) == b"something"


def times_given_up(ours, limit_seconds):
    """Send an answer that is given up; return how often its limit was the reason."""
    given_up = []
    ours.finish_within(limit_seconds, lambda: given_up.append("now"))
    with pytest.raises(BrokenPipeError):
        ours.sendall(LARGE)
    return len(given_up)


def test_an_answer_that_nobody_takes_is_given_up_at_its_limit_however_patient_we_are(connected):
    ours, _ = connected(600.0)
    assert times_given_up(ours, 0.05) == 1


def test_an_answer_that_is_taken_bit_by_bit_is_given_up_at_its_limit_too(connected):
    """Each reading of the clock is some minutes later, and the client has read what there was by then."""
    minutes = count(step=10)

    def clock():
        with suppress(BlockingIOError):
            while client.recv(1 << 20):
                pass
        return 60.0 * next(minutes)

    ours, client = connected(600.0, clock=clock)
    assert times_given_up(ours, 3600.0) == 1


def test_the_limit_is_of_one_answer(connected):
    ours, client = connected(600.0)
    ours.finish_within(0.0, lambda: None)
    ours.begin()
    ours.sendall(b"the next ")
    ours.sendall(b"one")
    eventually(lambda: select.select([client], [], [], 0)[0])
    assert client.recv(100) == b"the next one"


def test_a_client_that_takes_nothing_for_a_while_is_given_up_before_the_limit(connected):
    ours, _ = connected(0.01)
    assert times_given_up(ours, 3600.0) == 0


def test_what_a_client_has_sent_earns_it_no_longer_silence_than_it_had_at_first(connected):
    ours, client = connected(0.01)
    ours.begin()
    ours.settimeout(1.0)
    client.sendall(bytes(5_000))  # seconds, if it counted
    assert len(ours.recv(5_000)) == 5_000
    with pytest.raises(TimeoutError):
        ours.recv(1)
