"""What the tests of connections share: providers, secrets that must never be seen again, and answers of a service."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from dataclasses import asdict
from typing import Any

from providers.addresses import ConnectPolicy
from providers.base import ProviderContext
from providers.network import Network
from registry import connection_test
from registry.discovery import discover
from registry.placeholders import Placeholders
from registry.registry import ProviderRegistry
from registry.secret_hosts import ANYWHERE, SecretHosts
from schemas.connections import STAGES, Stage
from tests.support.raw_server import HEAD, RawServer

SECRET = "sk-planted-8c1f"
ENVIRON = {"RAG_PLANTED_API_KEY": SECRET, "RAG_PLANTED_URL": f"http://{SECRET}.example", "PATH": "/planted"}
REGISTRY = discover(ProviderRegistry(), strangers=[])
SECONDS = 0.5
"""Of tests that something is cut in; the others have time."""

VECTORS = json.dumps({"data": [{"index": 0, "embedding": [0.5, 0.25]}]}).encode()


def numbers_only(host, port, **options):
    """The system's resolver, which asks nobody and knows no name."""
    return socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, **options)


def try_out(
    config: Any,
    *,
    provider: str = "openai",
    kind: str = "embedding",
    seconds: float = 20,
    resolve: Any = numbers_only,
    policy: str = "loopback,private,public",
    registry: ProviderRegistry = REGISTRY,
    environ: dict[str, str] = ENVIRON,
    secret_dirs=(),
    secret_hosts: SecretHosts = ANYWHERE,
):
    """The report, which is one in any case, and comes in time."""
    context = ProviderContext(network=Network(ConnectPolicy.parse(policy), resolve=resolve))
    placeholders = Placeholders(environ, secret_dirs=secret_dirs, secret_hosts=secret_hosts)
    report = connection_test.test_connection(
        registry, placeholders, context, kind, provider, config, seconds=seconds, clock=time.perf_counter
    )
    assert tuple(stage.name for stage in report.stages) == STAGES
    verdicts = [stage.verdict for stage in report.stages]
    assert report.success == ("failed" not in verdicts)
    assert (report.message is None) == (report.error_type is None) == report.success
    json.dumps(asdict(report))
    return report


def failed_stage(report) -> Stage:
    """The one stage that failed: what is after it was not reached."""
    [failed] = [stage for stage in report.stages if stage.verdict == "failed"]
    assert {stage.verdict for stage in report.stages[report.stages.index(failed) + 1 :]} <= {"skipped"}
    assert failed.next_step
    return failed


def response(body: bytes = VECTORS, status: str = "200 OK", **headers: str) -> bytes:
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()).encode()
    return b"HTTP/1.1 %b\r\n%bConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
        status.encode(),
        named,
        len(body),
        body,
    )


def gzip_bomb(server: RawServer, connection: socket.socket) -> None:
    """Half a gigabyte of blanks in half a megabyte."""
    packed = gzip.compress(b" " * (1 << 24), 9) * 32
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)


def wait_for_ends_of_tests() -> None:
    """The threads of connection tests end once what they hang in lets them go."""
    for thread in threading.enumerate():
        if thread.name == "connection-test":
            thread.join(20)
            assert not thread.is_alive()
