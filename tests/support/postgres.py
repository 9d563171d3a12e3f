"""Run the installed PostgreSQL as a real server, on a scratch directory and a free port.

Its catalogues are schemas of one database, so that each test gets an empty one at once.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import free_port

ADMINISTRATOR = "administrator"
ROLE = "rag"
"""The role that owns its catalogues and may do nothing else."""
PASSWORD = "not-to-be-seen"
MISSING = "PostgreSQL is not installed here: install Debian's `postgresql`, or put initdb and pg_ctl on the PATH"


@cache
def programs() -> Path | None:
    """Return the folder of the newest initdb and pg_ctl, or None when there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: int(found.parts[-3]))
    if debian:
        return debian[-1].parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found and shutil.which("pg_ctl") else None


class PostgresServer:
    """A server that runs from `start` to `stop` and may be started again."""

    def __init__(self, directory: Path) -> None:
        self._data, self._log = directory / "data", directory / "log"
        self._port = free_port()
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            user = pwd.getpwnam("postgres")
            self._as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            os.chown(directory, user.pw_uid, user.pw_gid)
        else:
            self._as_user = []
        secret = directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            "initdb", "-U", ADMINISTRATOR, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C", "-N"
        )

    def start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=300"
        # No test takes the machine's power away; what a killed server has written is the system's to keep.
        options += " -c fsync=off"
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self._log), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; `immediate` is a crash, which writes nothing before the end."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def url(self, schema: str) -> str:
        address = f"postgresql+psycopg://{ROLE}:{PASSWORD}@127.0.0.1:{self._port}/postgres"
        return f"{address}?options=-csearch_path%3D{schema}"

    @contextmanager
    def catalogue(self) -> Iterator[str]:
        """Give the URL of an empty catalogue, which is dropped at the end of the block."""
        schema = f"test_{uuid.uuid4().hex}"
        with self._connection() as connection:
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                connection.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
            connection.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {ROLE}")
        yield self.url(schema)
        with self._connection() as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")

    def _connection(self) -> Any:
        import psycopg

        url = f"postgresql://{ADMINISTRATOR}:{PASSWORD}@127.0.0.1:{self._port}/postgres"
        return closing(psycopg.connect(url, autocommit=True, options="-c client_min_messages=warning"))

    def _run(self, program: str, *arguments: str) -> None:
        found = programs()
        assert found is not None
        # The started server keeps its output open; a file, unlike a pipe, makes nobody wait for it.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [*self._as_user, str(found / program), "-D", str(self._data), *arguments],
                stdout=output,
                stderr=output,
                timeout=120,
                check=False,
                cwd="/",
            )
            output.seek(0)
            said = output.read().decode()
        if done.returncode:
            log = self._log.read_text() if self._log.exists() else ""
            raise RuntimeError(f"{program} failed: {said}{log}")


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Run a server for the length of the block; skip the test where PostgreSQL is not installed."""
    if programs() is None:
        pytest.skip(MISSING)
    directory = Path(tempfile.mkdtemp(prefix="rag-postgres-"))
    try:
        server = PostgresServer(directory)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
