"""A service on loopback that answers one JSON value by path, and by path alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from tests.registry.hostile import response
from tests.support.raw_server import RawServer, raw_server


def answering(
    routes: Mapping[str, Any], *, otherwise: Any = None, status: str = "404 Not Found"
) -> AbstractContextManager[RawServer]:
    """Run it; paths that it does not know are answered `otherwise`, with a status of their own."""

    def speak(server, connection):
        if server.requests[-1]:
            path = urlsplit(server.requests[-1].split(b" ")[1].decode()).path
            is_known = path in routes
            said = json.dumps(routes[path] if is_known else otherwise or {"error": "Not found"}).encode()
            connection.sendall(response(said) if is_known else response(said, status))

    return raw_server(speak)
