"""`rag-wrapper mirror`: a copy of a collection of another service, kept up to date through the running service."""

from __future__ import annotations

import click

from interfaces.commands.options import url_option


@click.command()
@click.argument("source", metavar="URL")
@click.argument("collection")
@click.option("--as", "name", metavar="NAME", help="Name of the copy.  [default: that of the collection]")
@click.option("--once", is_flag=True, help="Bring the copy up to date and exit.")
@url_option
def mirror(source: str, collection: str, name: str | None, once: bool, url: str) -> None:
    """Keep a copy of COLLECTION of the service at URL in the running service, until it is stopped.

    The copy is made when it is missing, with the metric and the metadata of the collection. How far it has come is in
    its metadata, under `mirror`: start the command again after whatever has ended it. Nobody else should write to the
    copy.

    The key for the service at URL, which must be one for the whole collection, is read from RAG_SOURCE_API_KEY.

    Exit code: 0 if it was stopped or, with --once, the copy is up to date; 2 if the collection cannot be copied there
    or, with --once, a service failed.
    """
    from interfaces.commands.work.mirroring import mirror

    mirror(source, collection, name, once=once, url=url)
