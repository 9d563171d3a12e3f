"""Run the installed PostgreSQL as a real server, on a scratch directory and a free port.

Its catalogues are databases that are copied from one in which the product has made its tables.
"""

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

from tests.support.live import PATIENCE_SECONDS, PORT_ATTEMPTS, free_port

ADMINISTRATOR = "administrator"
ROLE = "rag"
"""The role that owns its catalogues and may do nothing else."""
PASSWORD = "not-to-be-seen"
SCHEMA = "catalogue"
PATIENTLY = ("-w", "-t", str(int(PATIENCE_SECONDS) - 5))
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
        self._templates: set[str] = set()
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
        for attempt in range(PORT_ATTEMPTS):
            try:
                self._start()
                return
            except RuntimeError as error:
                # Another program may have taken the port after it was found free.
                if "Address already in use" not in str(error) or attempt == PORT_ATTEMPTS - 1:
                    raise
                self._port = free_port()

    def _start(self) -> None:
        options = f"-p {self._port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=300"
        # No test takes the machine's power away; what a killed server has written is the system's to keep.
        options += " -c fsync=off"
        self._run("pg_ctl", *PATIENTLY, "-o", options, "-l", str(self._log), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; `immediate` is a crash, which writes nothing before the end."""
        self._run("pg_ctl", *PATIENTLY, "-m", mode, "stop")

    def url(self, database: str) -> str:
        address = f"postgresql+psycopg://{ROLE}:{PASSWORD}@127.0.0.1:{self._port}/{database}"
        return f"{address}?options=-csearch_path%3D{SCHEMA}"

    @contextmanager
    def catalogue(self, *, empty: bool = False) -> Iterator[str]:
        """Give the URL of a new catalogue, which is dropped at the end of the block: without documents, and an `empty`
        one without tables."""
        template = self._template(empty)
        database = f"test_{uuid.uuid4().hex}"
        with self._connection() as connection:
            connection.execute(f"CREATE DATABASE {database} TEMPLATE {template}")
        yield self.url(database)
        with self._connection() as connection:
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def _template(self, empty: bool) -> str:
        """Return the database to copy, which is made when it is first needed."""
        template = "empty_catalogue" if empty else "new_catalogue"
        if template not in self._templates:
            with self._connection() as connection:
                if not self._templates:
                    connection.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
                connection.execute(f"CREATE DATABASE {template}")
            with self._connection(template) as connection:
                connection.execute(f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {ROLE}")
            if not empty:
                _migrate(self.url(template))
            self._templates.add(template)
        return template

    def _connection(self, database: str = "postgres") -> Any:
        import psycopg

        url = f"postgresql://{ADMINISTRATOR}:{PASSWORD}@127.0.0.1:{self._port}/{database}"
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
                timeout=PATIENCE_SECONDS,
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


def _migrate(url: str) -> None:
    from wrapper.catalog.catalog import Catalog
    from wrapper.catalog.postgres.database import PostgresDatabase

    catalog = Catalog(PostgresDatabase(url))
    catalog.open()
    catalog.close()
