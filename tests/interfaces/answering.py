"""A service on loopback that answers one JSON value by path, and by path alone."""

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from tests.registry.hostile import response
from tests.support.raw_server import RawServer, raw_server


def answering(
    routes: Mapping[str, Any], *, otherwise: Any = None, status: str = "404 Not Found"
) -> AbstractContextManager[RawServer]:
    """Run it; paths that it does not know are answered `otherwise`, with a status of their own."""

    def speak(server, connection):
        asked = re.match(rb"[A-Z]+ (/[^ ?]*)", server.requests[-1])
        if asked is not None:
            is_known = asked[1].decode() in routes
            said = json.dumps(routes[asked[1].decode()] if is_known else otherwise or {"error": "Not found"}).encode()
            connection.sendall(response(said) if is_known else response(said, status))

    return raw_server(speak)
