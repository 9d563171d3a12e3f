"""What clients ask for that read slowly: a collection whose export fills every buffer on the way."""

import ssl

from tests.durability.workload import add, create

TEXT = "x" * 2_000_000
EXPORT = b"GET /collections/large/export HTTP/1.1\r\nHost: localhost\r\n\r\n"


def create_large(service):
    create(service, "large")
    for number in range(10):
        add(service, "large", [{"id": f"d{number}", "text": TEXT, "embedding": [1.0, number]}])


def rest(client):
    """Return all that a connection still brings; one that is reset ends."""
    received = bytearray()
    try:
        while content := client.recv(1 << 16):
            received += content
    except (ConnectionResetError, ssl.SSLEOFError):
        pass
    return bytes(received)
