"""Answers compressed with gzip, for clients on other machines that take it.

Between processes of one machine bytes cost nothing and compressing them does: such clients get answers as they are.
"""

from __future__ import annotations

import gzip
from ipaddress import ip_address

from flask import Request, Response, current_app

from wrapper.web.bodies import JSON
from wrapper.web.client_addresses import TrustedProxies, client_address

LEAST_BYTES = 1_400
"""The size from which an answer is compressed: what fits into one packet gains nothing."""
LEVEL = 1
"""Higher levels make answers with vectors hardly smaller, and take several times as long."""
MEDIA_TYPES = frozenset({JSON, "text/html", "text/plain", "text/markdown"})


def compress(request: Request, response: Response) -> None:
    """Compress a whole answer that is large enough. Streams stay as they are: their first line must not wait."""
    if response.is_streamed or response.mimetype not in MEDIA_TYPES or "Content-Encoding" in response.headers:
        return
    if (response.calculate_content_length() or 0) < LEAST_BYTES:
        return
    # To read the header and write it anew takes several times as long as to set it.
    if "Vary" in response.headers:
        response.vary.add("Accept-Encoding")
    else:
        response.headers["Vary"] = "Accept-Encoding"
    if "Accept-Encoding" not in request.headers or request.accept_encodings["gzip"] <= 0:
        return
    if _is_of_this_machine(request):
        return
    response.set_data(gzip.compress(response.get_data(), LEVEL, mtime=0))
    response.headers["Content-Encoding"] = "gzip"


def _is_of_this_machine(request: Request) -> bool:
    trusted: TrustedProxies = current_app.extensions["rag.trusted_proxies"]
    try:
        return ip_address(client_address(request.environ, trusted)).is_loopback
    except ValueError:  # a socket of the file system, or no address at all
        return True
