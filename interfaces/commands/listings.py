"""`rag-wrapper collections`, `documents` and `status`: what there is, and how the service is."""

from __future__ import annotations

import json
from urllib.parse import quote

import click

from interfaces.commands.options import asking

# What takes long to import is imported where it is used, so that help and usage errors are quick.

SHOWN = 100
PAGE = 1000
"""The most documents that the service gives at once."""
UNWELL = 1
"""The exit code of `status` when the service is not well."""


@click.command()
@click.option("--database", metavar="NAME", help="The collections of this database, TENANT/NAME.")
@asking
def collections(database: str | None, url: str, as_json: bool) -> None:
    """List the collections: name, number of documents, dimension, metric, embedding model.

    In a pipe the columns are separated by tabs and have no header. --json prints the answer of GET /collections.

    Exit code: 0, or 2 if they could not be listed.
    """
    from interfaces.terminal.listing import show_collections
    from interfaces.terminal.screen import Screen
    from interfaces.terminal.services import service_to_ask

    screen = Screen()
    with service_to_ask(url) as service, service.reading():
        content = service.get(
            "/collections" if database is None else f"/collections?database={quote(database, safe='')}"
        )
        if as_json:
            screen.raw(content)
        else:
            show_collections(screen, json.loads(content)["collections"])


@click.command()
@click.option("--collection", metavar="NAME", help="Only documents of this collection.")
@click.option("--source", metavar="TEXT", help="Only documents of this source.")
@click.option("--tag", metavar="TEXT", help="Only documents with this tag.")
@click.option("--kind", metavar="NAME", help="Only documents of this kind: pdf, html, markdown, …")
@click.option("--limit", type=click.IntRange(1, PAGE), default=SHOWN, show_default=True, help="The most documents.")
@asking
def documents(
    collection: str | None,
    source: str | None,
    tag: str | None,
    kind: str | None,
    limit: int,
    url: str,
    as_json: bool,
) -> None:
    """List the documents of the text collections: source, kind, title, chunks, tags, time of the last change.

    In a pipe the columns are separated by tabs and have no header. --json prints the answer of GET /api/documents.

    Exit code: 0, or 2 if they could not be listed.
    """
    from interfaces.terminal.listing import show_documents
    from interfaces.terminal.screen import Screen
    from interfaces.terminal.services import service_to_ask

    screen = Screen()
    with service_to_ask(url) as service, service.reading():
        asked = {"collection": collection, "source": source, "tag": tag, "kind": kind, "limit": limit}
        content = service.get("/api/documents", **asked)
        if as_json:
            screen.raw(content)
            return
        page = json.loads(content)
        show_documents(screen, page["documents"])
        if page["total"] > len(page["documents"]):
            click.echo(f"{len(page['documents'])} of {page['total']} documents; --limit shows more", err=True)


@click.command()
@asking
@click.pass_context
def status(ctx: click.Context, url: str, as_json: bool) -> None:
    """Say how the service and its parts are: engine, catalogue, models, indexes, disk, watched folders and jobs.

    --json prints {service, health, watchers, jobs}.

    Exit code: 0 if the service is healthy or degraded; 1 if it is unhealthy, 2 if nothing answers.
    """
    from interfaces.terminal.report import report_of, show_report
    from interfaces.terminal.screen import Screen, as_json_text
    from interfaces.terminal.services import service_to_ask

    screen = Screen()
    with service_to_ask(url) as service, service.reading():
        report = report_of(service)
        if as_json:
            screen.raw(as_json_text(report))
        else:
            show_report(screen, report)
    ctx.exit(UNWELL if report["health"]["status"] == "unhealthy" else 0)
