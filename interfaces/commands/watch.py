"""`rag-wrapper watch`: keep folders in sync with a collection, through the running service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interfaces.commands.options import url_option


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
def watch(ctx: click.Context, **given: Any) -> None:
    """Keep the documents and the code in each DIR in sync with a collection of the running service: new, changed and
    deleted files, until it is stopped.

    Each file is one document, and its `source` is the name of DIR followed by its path; the service reads, splits and
    embeds it as one that is loaded. What `load` passes over is passed over, too, and JSONL, which is for `load`.

    Exit code: 0 if it was stopped or, with --once, everything is up to date; 1 if, with --once, some files could not be
    indexed; 2 if nothing could be done or, with --once, the service failed.
    """
    from interfaces.commands.work.watching import watch_folders

    watch_folders(ctx, **given)
