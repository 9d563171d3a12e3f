import socket

import pytest


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def numbers_only(host, port, **options):
    """Resolve with the system's resolver, which asks nobody and knows no name."""
    return socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, **options)
