"""A client's connection as threads see it."""

import socket

from tests.support.live import eventually
from wrapper.patience import Patience, PatientSocket


def test_a_client_is_gone_when_it_has_closed_even_with_something_unread():
    listening = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listening.getsockname())
    with listening, client, PatientSocket(listening.accept()[0].detach(), Patience(1.0, 1)) as ours:
        assert not ours.is_gone()
        client.sendall(b"something")
        assert not ours.is_gone()
        client.close()
        eventually(ours.is_gone, seconds=20)
        assert ours.recv(100) == b"something"
