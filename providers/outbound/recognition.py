"""What a service says of itself to anybody who asks, by which its kind is recognised, and where it may be instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
import requests

from providers.outbound.answer_streams import BYTE_ORDER_MARK
from providers.outbound.http_sessions import answer_within, waits
from providers.outbound.network import Network
from schemas.errors import RagError

MAX_BYTES = 1 << 16
_ENDPOINT = re.compile(
    "(/v[0-9]+)?/((engines/[^/]+/)?embeddings|chat(/completions)?|completions|responses|models|rerank|embed)$"
    "|/api(/(embed|embeddings|chat|generate|tags|version|show))?$",
    re.IGNORECASE,
)
_VERSION = re.compile("(/v[0-9]+)+$", re.IGNORECASE)
_BASES = ("/v2", "/v3", "/api/v1", "/openai/v1", "/engines/v1")
"""Where services stand that stand neither at /v1 nor at the root."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A JSON object under `path`, below the service's URL, in which `member` is there and its text has `value` in it,
    in whatever case."""

    path: str
    member: str
    value: str = ""


def speaks(network: Network, url: str, *, seconds: float) -> bool:
    """Return whether an HTTP server answers at a URL, whatever it says to who has no key. Nothing is raised."""
    try:
        with (
            answer_within(seconds),
            network.session(url) as session,
            closing(session.get(url, timeout=waits(seconds), allow_redirects=False, stream=True)) as response,
        ):
            return bool(response.status_code)
    except (requests.RequestException, RagError, OSError, ValueError):
        return False


def shows(network: Network, url: str, sign: Sign, *, seconds: float) -> bool:
    """Return whether what answers at a URL shows a sign. It is asked without any key, and nothing is raised."""
    try:
        with (
            answer_within(seconds),
            network.session(url) as session,
            closing(
                session.get(url.rstrip("/") + sign.path, timeout=waits(seconds), allow_redirects=False, stream=True)
            ) as response,
        ):
            content = bytearray()
            for piece in response.iter_content(MAX_BYTES):
                content += piece
                if len(content) > MAX_BYTES:
                    return False
            said = orjson.loads(content.removeprefix(BYTE_ORDER_MARK)) if response.ok else None
    except (requests.RequestException, RagError, OSError, ValueError):
        return False
    return isinstance(said, dict) and sign.member in said and sign.value in str(said[sign.member]).casefold()


def near(url: str) -> Iterator[str]:
    """Yield other base URLs on the same host and port that whoever wrote this one may have meant: without the endpoint
    that was pasted with it, with the version or without it, and without any path."""
    parts = urlsplit(url.rstrip("/"))
    written = re.sub(r"/{2,}", "/", parts.path)
    path = _ENDPOINT.sub(r"\1", written)
    bare = _VERSION.sub("", path)
    version = _VERSION.search(path)
    own = bare + version[1].lower() if version else f"{path}/v1"
    likely = (path, own, bare, *(bare + base for base in _BASES), "/v1", "")
    for each in dict.fromkeys(likely):
        if each != parts.path:
            yield parts._replace(path=each).geturl()
