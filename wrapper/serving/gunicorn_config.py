"""The configuration of gunicorn for the service.

The master owns the data directory and the engine's keeper, and the workers inherit both: the service ends when the last
of them does. A worker has threads because its requests mostly wait, for the engine and for the disk.
"""

import os
import shutil
import tempfile
from importlib import import_module
from typing import Any

import structlog

from schemas.errors import ConfigurationError
from schemas.settings import HOSTED, read_access_settings, read_log_settings, read_wrapper_settings
from wrapper.observing.captured_lines import capture
from wrapper.observing.logs import configure
from wrapper.serving.before_imports import begin, one_numeric_thread
from wrapper.serving.freed_memory import bound_arenas, keep_for_good, note_answered
from wrapper.serving.gunicorn_log import ServiceLog
from wrapper.start_checks import allow_open_files, bind_address, check_port
from wrapper.web import lanes
from wrapper.web.client_addresses import TrustedProxies

log = structlog.get_logger(__name__)

configure(*read_log_settings())
capture()
try:
    settings, access = read_wrapper_settings(), read_access_settings()
    trusted_proxies = TrustedProxies.parse(access.trusted_proxies)
except ConfigurationError as error:
    log.error(error.message)
    raise SystemExit(1) from None

one_numeric_thread()
bind = bind_address(settings)
workers = settings.workers
worker_class = "wrapper.serving.gunicorn_worker.Worker"
logger_class = ServiceLog
# Each waiting request has a thread, which costs little: see wrapper/web/lanes.py.
threads = lanes.threads(settings)
wsgi_app = "wrapper:create_app()"
# A request may wait for the index and for a slow client; a worker whose threads all hang is another matter.
timeout = 120
graceful_timeout = 30
keepalive = 75
backlog = 512
# A connection is an open file. There is room left for the worker's other files: the catalogue, the engine, other
# services.
OTHER_FILES = 256
files = allow_open_files(1000 + threads + OTHER_FILES)
worker_connections = max(files - OTHER_FILES, files // 2)
# The application itself refuses request lines beyond 32 KB, in its own words.
limit_request_line = 0
# The kernel's way of sending files takes no account of clients that do not read.
sendfile = False
if settings.tls_cert:
    # With these gunicorn knows that requests come by https. The worker speaks TLS itself.
    certfile, keyfile = settings.tls_cert, settings.tls_key
# Whoever may tell the client's address may tell the scheme, and nobody else. One header for it: a proxy that sets one
# lets its clients' others through.
forwarded_allow_ips = ",".join(trusted_proxies.spelled())
secure_scheme_headers = {"X-FORWARDED-PROTO": "https"}
# No header decides which part of a path is a prefix: a rule of the proxy for paths could be evaded.
forwarder_headers = ""
control_socket_disable = True
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None


def on_starting(server: Any) -> None:
    begin()

    from schemas.access.credentials_in_text import thorough
    from wrapper.access.configured_key import settings_cleaner
    from wrapper.host import open_host
    from wrapper.machine_memory import vectors_mb
    from wrapper.serving.fair_share import ConnectionCounts

    bound_arenas()  # the workers inherit this
    server.log.clean_with(thorough(settings_cleaner(access)))
    server.rag_connection_counts = ConnectionCounts(2 * workers)  # room for workers that end and for their successors

    try:
        check_port(settings)
        server.rag_certificate = _certificate()
        server.rag_host = open_host(settings, access)
        log.info("vectors may be held in memory", most_mb=vectors_mb(settings.memory_vectors_mb))
    except ConfigurationError as error:
        log.error(error.message)
        raise SystemExit(1) from None
    os.environ[HOSTED] = str(os.getpid())
    server.rag_metrics = tempfile.mkdtemp(prefix="rag-wrapper-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = server.rag_metrics
    # Once, before the workers are forked: each would spend a second and a half on its own imports.
    module = import_module(server.app.app_uri.partition(":")[0])
    getattr(module, "import_all", lambda: None)()
    keep_for_good()


def _certificate() -> Any:
    """Return the service's certificate, None without TLS, which imports nothing for it."""
    if not settings.tls_cert:
        return None
    from wrapper.serving.certificate import Certificate

    return Certificate(settings.tls_cert, settings.tls_key)


def pre_fork(server: Any, worker: Any) -> None:
    from wrapper.serving.fair_share import FairShare

    worker.certificate = server.rag_certificate
    worker.slot = server.rag_connection_counts.take()
    if worker.slot is not None:
        worker.share = FairShare(server.rag_connection_counts, worker.slot)


def post_worker_init(worker: Any) -> None:
    keep_for_good()
    worker.tell_share()  # from now on the worker takes its part


def pre_request(worker: Any, request: Any) -> None:
    from wrapper.serving.checked_body import CheckedReader

    # A body that is not read to its end makes the answer the connection's last.
    request.unreader.sock.ends_by(request.force_close)
    request.body.reader = CheckedReader(request.body.reader)


def post_request(worker: Any, request: Any, environ: dict[str, Any], response: Any) -> None:
    note_answered(environ)


def worker_exit(server: Any, worker: Any) -> None:
    try:
        service = worker.wsgi.extensions["rag.service"]
    except AttributeError:
        return
    service.close()


def child_exit(server: Any, worker: Any) -> None:
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)
    server.rag_connection_counts.free(worker.slot)


def on_exit(server: Any) -> None:
    host = getattr(server, "rag_host", None)
    if host is not None:
        host.close()
    shutil.rmtree(getattr(server, "rag_metrics", ""), ignore_errors=True)
