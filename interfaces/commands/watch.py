"""`rag-wrapper watch`: keep folders in sync with a collection, through the running service."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from interfaces.asked_service import service_at
from interfaces.commands.options import log_to_stderr, url_option


@click.command()
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="DIR…",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--name", metavar="NAME", help="Another name for the folder than its own; only for a single folder.")
@click.option("--collection", metavar="NAME", help="Collection to fill.  [default: the one where the service is asked]")
@click.option(
    "--debounce-seconds",
    type=click.FloatRange(min=0.01, max=30),
    default=1.0,
    show_default=True,
    help="Seconds without further changes after which changes are indexed.",
)
@click.option("--allow-empty", is_flag=True, help="Believe that a folder is empty although documents of it are stored.")
@click.option(
    "--shared", is_flag=True, help="Let others see the watcher in the service's list, not only whoever asks here."
)
@click.option("--once", is_flag=True, help="Bring the collection up to date and exit.")
@url_option
@click.pass_context
def watch(
    ctx: click.Context,
    folders: tuple[Path, ...],
    name: str | None,
    collection: str | None,
    debounce_seconds: float,
    allow_empty: bool,
    shared: bool,
    once: bool,
    url: str,
) -> None:
    """Keep the documents and the code in each DIR in sync with a collection of the running service: new, changed and
    deleted files, until it is stopped.

    Each file is one document, and its `source` is the name of DIR followed by its path; the service reads, splits and
    embeds it as one that is loaded. What `load` passes over is passed over, too, and JSONL, which is for `load`.

    Exit code: 0 if it was stopped or, with --once, everything is up to date; 1 if, with --once, some files could not be
    indexed; 2 if nothing could be done or, with --once, the service failed.
    """
    from interfaces.commands.work.folder_watch import Watch, run_all, run_once
    from schemas.names import check_collection_name

    names = _names(folders, name)
    if collection is not None:
        check_collection_name(collection)
    log_to_stderr(logging.ERROR if once else logging.WARNING if sys.stderr.isatty() else logging.INFO)
    stop = threading.Event()
    with service_at(url) as client:
        watches = [
            Watch(root, called, client, stop, collection, shared=shared, may_be_empty=allow_empty)
            for root, called in zip(folders, names, strict=True)
        ]

        def end(number: int, frame: object) -> None:
            """End the work soon; a second signal ends the process."""
            stop.set()
            signal.signal(number, signal.SIG_DFL)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        if once:
            ctx.exit(0 if run_once(watches) else 1)
        run_all(watches, debounce_seconds, stop)


def _names(folders: Sequence[Path], name: str | None) -> list[str]:
    from schemas.contracts.watchers import MAX_NAME_CHARACTERS, is_watcher_name

    if name is not None and len(folders) > 1:
        raise click.UsageError("--name is for one folder only.")
    names = [name or folder.resolve().name for folder in folders]
    for each in names:
        if not is_watcher_name(each):
            raise click.UsageError(
                f"A folder cannot be called {each!r}: 1 to {MAX_NAME_CHARACTERS} printable characters without '/'."
            )
        if names.count(each) > 1:
            raise click.UsageError(f"Two folders are called '{each}': watch one of them with --name of its own.")
    return names
