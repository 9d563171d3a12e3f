"""The option for the service's URL, the log and the progress bar of commands that talk to the running service."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from rich.progress import Progress

# What takes long to import is imported where it is used, so that help and usage errors are quick.

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # the service listens at these but is not called at them


def service_url(environ: Mapping[str, str]) -> str:
    """Return the URL at which this machine reaches a service with these settings."""
    host = environ.get("RAG_HOST") or "127.0.0.1"
    host = _EVERY_INTERFACE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{environ.get('RAG_PORT') or '5006'}"


def running_service(data_dir: Path) -> str | None:
    """Return the URL of the service that owns a data directory, None when nobody owns it or the owner serves
    nothing."""
    from wrapper.engine.data_directory_lock import serving_address

    address = serving_address(data_dir)
    if address is None:
        return None
    listens = urlsplit(address)
    return service_url({"RAG_HOST": listens.hostname or "", "RAG_PORT": str(listens.port)})


url_option = click.option(
    "--url",
    default=lambda: service_url(os.environ),
    metavar="URL",
    show_default="http://$RAG_HOST:$RAG_PORT, else http://127.0.0.1:5006",
    help="URL of the service.",
)


def log_to_stderr(level: int) -> None:
    """Log messages of at least `level` (of `logging`) to stderr; stdout is for the output of the command."""
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def documents_progress() -> Progress:
    """Return a bar for a number of documents, shown on a terminal only, and removed when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
