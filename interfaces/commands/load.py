"""`rag-wrapper load` and `delete`: bring files into the running service, and take documents out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interfaces.commands.options import MAX_NAMED, url_option

collection_option = click.option(
    "--collection", metavar="NAME", help="Collection of the documents.  [default: the one where the service is asked]"
)


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@collection_option
@url_option
@click.option(
    "--source-prefix",
    metavar="TEXT",
    help="Name in front of each source's path, instead of the folder's own; an empty one means none.",
)
@click.option("--follow-links", is_flag=True, help="Load what symbolic links lead to, even outside of the folder.")
@click.option("--prune", is_flag=True, help="Delete the documents of the folder whose files are no longer there.")
@click.option("--allow-empty", is_flag=True, help="With --prune: believe that the folder has no files.")
@click.option(
    "--verbose",
    is_flag=True,
    help=f"Name every file that is passed over or in error, not only the first {MAX_NAMED}.",
)
@click.pass_context
def load(ctx: click.Context, **given: Any) -> None:
    """Load PATH, a file or a folder, into a collection of the running service, which reads, splits and embeds.

    Each file is one document, whose source is the name of its folder followed by its path; a JSONL line {id, title,
    text, metadata, embedding} is one, too, and a folder with corpus.jsonl is a BEIR data set. Loading again uploads
    only what changed.

    Exit code: 0 if everything is loaded, but for what is named as passed over; 1 if some files could not be loaded, 2
    if nothing could be done or the service failed.
    """
    from interfaces.commands.work.loading import load

    load(ctx, **given)


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]…")
@click.option("--below", "prefix", metavar="FOLDER", help="Delete all documents of a folder, as 'docs' or 'docs/old'.")
@collection_option
@url_option
@click.pass_context
def delete(ctx: click.Context, **given: Any) -> None:
    """Delete the documents of these sources, as `documents` lists them: docs/guide.md.

    Exit code: 0 if all are deleted, 1 if some were not stored, 2 if nothing could be done.
    """
    from interfaces.commands.work.loading import delete

    delete(ctx, **given)
