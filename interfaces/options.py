"""What commands that talk to the running service share: how they are told where it is, and how they show progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click
import structlog
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where a service listens is not where it is called


def service_url(environ: Mapping[str, str]) -> str:
    """Where a service with these settings is reached from this machine."""
    host = environ.get("RAG_HOST") or "127.0.0.1"
    host = _EVERY_INTERFACE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{environ.get('RAG_PORT') or '5006'}"


url_option = click.option(
    "--url",
    default=lambda: service_url(os.environ),
    metavar="URL",
    show_default="http://$RAG_HOST:$RAG_PORT, else http://127.0.0.1:5006",
    help="The service.",
)


def log_to_stderr(level: int) -> None:
    """What is worth at least `level` (of `logging`); stdout is for what the command was asked for."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def documents_progress() -> Progress:
    """A bar for so many of so many documents, on a terminal only; it is gone when it is done."""
    console = Console(file=sys.stderr)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
