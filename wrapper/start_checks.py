"""Checks before a service starts, of its port, its data directory and its catalogue, which start nothing."""

from __future__ import annotations

import errno
import os
import resource
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

from schemas.errors import ConfigurationError
from schemas.settings import POSTGRESQL, SQLITE, WrapperSettings
from wrapper.engine.data_directory_lock import check_free, unusable

FORMAT = b"SQLite format 3\0"
"""The first bytes of a SQLite file."""


def bind_address(settings: WrapperSettings) -> str:
    """Return the address where the service listens, as gunicorn writes it."""
    return f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"


def check_port(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when no service can listen at `RAG_HOST` and `RAG_PORT` now."""
    host, port = settings.host, settings.port
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        raise ConfigurationError(f"RAG_HOST: the name '{host}' is not known", field="RAG_HOST") from None
    family, kind, protocol, _, address = places[0]
    with socket.socket(family, kind, protocol) as probe:
        # As gunicorn does: a port whose connections have just ended counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            raise _cannot_listen(host, port, error) from None


def check_data_directory(data_dir: Path) -> bool:
    """Return True when this service may use the data directory.

    Directories that had to be made for the check are removed again. Raises ConfigurationError when the directory cannot
    be made or written to, or belongs to a running service.
    """
    made: list[Path] = []
    try:
        for folder in (*reversed(data_dir.parents), data_dir):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        with tempfile.NamedTemporaryFile(dir=data_dir, prefix=".writable-") as file:
            file.write(b"\0" * 4096)
        check_free(data_dir)
        return True
    except OSError as error:
        raise unusable(data_dir, error) from None
    finally:
        for folder in reversed(made):
            folder.rmdir()


def allow_open_files(wanted: int) -> int:
    """Let this process and its children open `wanted` files, or as many as the system allows, and return the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def catalogue_path(settings: WrapperSettings) -> Path | None:
    """Return the file of the catalogue, None where it is on PostgreSQL."""
    if settings.catalog_url.startswith(POSTGRESQL):
        return None
    if settings.catalog_url:
        return Path(settings.catalog_url.removeprefix(SQLITE))
    return settings.data_dir / "catalog.sqlite"


def check_catalogue(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when the catalogue's file cannot be made, read or written, or is not SQLite's."""
    path = catalogue_path(settings)
    # A dangling link exists, and no file can be made behind it.
    is_there = path is not None and os.path.lexists(path)
    if path is None or not (settings.catalog_url or is_there):
        return
    field = "RAG_CATALOG_URL" if settings.catalog_url else "RAG_DATA_DIR"
    try:
        if is_there:
            with path.open("rb+") as file:
                begins = file.read(len(FORMAT))
        else:
            begins = b""
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".writable-"):
                pass
    except OSError as error:
        raise ConfigurationError(f"{field}: {path} cannot be the catalogue: {error.strerror}", field=field) from None
    if begins not in (b"", FORMAT):
        raise ConfigurationError(f"{field}: {path} is no file of SQLite", field=field)


def disk_warnings(settings: WrapperSettings) -> list[str]:
    """Return a sentence when the disk has less than `RAG_DISK_FLOOR_MB`: the service then answers reads but refuses
    writes."""
    folder = next(folder for folder in (settings.data_dir, *settings.data_dir.parents) if folder.exists())
    status = os.statvfs(folder)
    free_mb = status.f_bavail * status.f_frsize / 2**20
    if free_mb >= settings.disk_floor_mb:
        return []
    return [
        f"{settings.data_dir} has {free_mb:.0f} MB left, less than RAG_DISK_FLOOR_MB ({settings.disk_floor_mb}): "
        "nothing will be stored until there is more"
    ]


def _cannot_listen(host: str, port: int, error: OSError) -> ConfigurationError:
    place = f"port {port} on {host}"
    if error.errno == errno.EADDRINUSE:
        return ConfigurationError(f"RAG_PORT: {place} is in use by another program", field="RAG_PORT")
    if error.errno == errno.EADDRNOTAVAIL:
        return ConfigurationError(f"RAG_HOST: {host} is no address of this machine", field="RAG_HOST")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ConfigurationError(f"RAG_PORT: this user may not listen on {place}", field="RAG_PORT")
    return ConfigurationError(f"RAG_PORT: nobody can listen on {place}: {error.strerror}", field="RAG_PORT")
