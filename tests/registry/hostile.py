"""Shared by the tests of connections: providers, secrets that must never be seen, and answers of a service."""

import gzip
import json
import socket
import threading
import time
from dataclasses import asdict
from typing import Any

from providers.base import ProviderContext
from providers.outbound.addresses import ConnectPolicy
from providers.outbound.network import Network
from registry import connection_trial
from registry.placeholders.resolving import Placeholders
from registry.placeholders.secret_hosts import ANYWHERE, SecretHosts
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from schemas.connections import STAGES, Stage
from tests.providers.outbound.conftest import numbers_only
from tests.support.live import LIMITS_SECONDS, PATIENCE_SECONDS
from tests.support.raw_server import HEAD, RawServer

SECRET = "sk-planted-8c1f"
ENVIRON = {"RAG_PLANTED_API_KEY": SECRET, "RAG_PLANTED_URL": f"http://{SECRET}.example", "PATH": "/planted"}
REGISTRY = discover(ProviderRegistry(), strangers=[])

VECTORS = json.dumps({"data": [{"index": 0, "embedding": [0.5, 0.25]}]}).encode()


def try_out(
    config: Any,
    *,
    provider: str = "openai",
    kind: str = "embedding",
    seconds: float = PATIENCE_SECONDS,
    resolve: Any = numbers_only,
    policy: str = "loopback,private,public",
    registry: ProviderRegistry = REGISTRY,
    environ: dict[str, str] = ENVIRON,
    secret_dirs=(),
    secret_hosts: SecretHosts = ANYWHERE,
    clock=time.perf_counter,
):
    """Return the report of a connection test: every test has one, in time."""
    context = ProviderContext(network=Network(ConnectPolicy.parse(policy), resolve=resolve))
    placeholders = Placeholders(environ, secret_dirs=secret_dirs, secret_hosts=secret_hosts)
    report = connection_trial.test_connection(
        registry, placeholders, context, kind, provider, config, seconds=seconds, clock=clock
    )
    assert tuple(stage.name for stage in report.stages) == STAGES
    verdicts = [stage.verdict for stage in report.stages]
    assert report.success == ("failed" not in verdicts)
    assert (report.message is None) == (report.error_type is None) == report.success
    json.dumps(asdict(report))
    return report


def cut_in(stage, config, *, try_out=try_out, **options):
    """Return the report of the first test whose limit was long enough to reach this stage."""
    for seconds in LIMITS_SECONDS:
        report = try_out(config, seconds=seconds, **options)
        if failed_stage(report).name == stage:
            break
    return report


def failed_stage(report) -> Stage:
    """Return the one stage that failed; those after it were not reached."""
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
    """Send half a gigabyte of blanks packed into half a megabyte."""
    packed = gzip.compress(b" " * (1 << 24), 9) * 32
    connection.sendall(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)


def wait_for_ends_of_tests() -> None:
    """Wait for the threads of connection tests, which end once what they hang in lets them go."""
    for thread in threading.enumerate():
        if thread.name == "connection-test":
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
