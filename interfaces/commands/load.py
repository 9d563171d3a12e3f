"""`rag-wrapper load`: bring a collection up to date with files, through the running service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interfaces.commands.options import url_option
from retrieval.ingest.bounds import MAX_FILE_MB, MAX_NAMED
from schemas.ways import CHUNKINGS


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--collection",
    metavar="NAME",
    help="Collection to fill; created when missing.  [default: $RAG_DOCUMENTS_COLLECTION, where questions are asked]",
)
@click.option(
    "--connection",
    type=click.Choice(["default"]),
    default="default",
    show_default=True,
    help="Embedding connection: default is the one that the options and variables below describe.",
)
@click.option(
    "--embedding-provider",
    envvar="RAG_EMBEDDING_PROVIDER",
    default="minilm",
    metavar="NAME",
    help="minilm (on this machine), openai (and all that speak its protocol) or ollama.",
    show_default=True,
    show_envvar=True,
)
@click.option("--embedding-url", envvar="RAG_EMBEDDING_URL", metavar="URL", show_envvar=True, help="Its address.")
@click.option("--embedding-model", envvar="RAG_EMBEDDING_MODEL", metavar="NAME", show_envvar=True, help="Its model.")
@url_option
@click.option(
    "--source-prefix",
    metavar="TEXT",
    help="Name in front of each source's path, instead of the folder's own; an empty one means none.",
)
@click.option(
    "--profile",
    type=click.Choice(CHUNKINGS),
    show_default="$RAG_CHUNKING",
    help="How files are split: sections cuts at every heading, whole keeps a document in one piece as long as it fits, "
    "windows makes overlapping pieces of similar length.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=16),
    help="Longest chunk; by default what the embedding model reads at once for sections, and as the settings say for "
    "the others.",
)
@click.option("--max-file-mb", type=click.IntRange(min=1), default=MAX_FILE_MB, show_default=True, help="Largest file.")
@click.option("--follow-links", is_flag=True, help="Load what symbolic links lead to, even outside of the folder.")
@click.option("--full-speed", is_flag=True, help="Do not give way to other processes of this machine.")
@click.option(
    "--verbose",
    is_flag=True,
    help=f"Name every file that is passed over or in error, not only the first {MAX_NAMED}.",
)
@click.pass_context
def load(ctx: click.Context, **given: Any) -> None:
    """Load PATH, a file or a folder, into a collection of the running service.

    Each file is one document, whose source is the name of its folder followed by its path; a JSONL line {id, title,
    text, metadata, embedding} is one, too, and a folder with corpus.jsonl is a BEIR data set. Loading again reads,
    embeds and stores only what changed. The load gives way to other processes, so that questions are not delayed.

    The key of an embedding service is read from RAG_EMBEDDING_API_KEY.

    Exit code: 0 if everything is loaded, but for what is named as passed over; 1 if some inputs could not be loaded, 2
    if nothing could be done or the service failed.
    """
    from interfaces.commands.work.loading import load

    load(ctx, **given)
