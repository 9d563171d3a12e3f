"""`rag-wrapper collections`, `documents` and `status`: what there is, and how the service is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from interfaces.asked_service import service_to_ask
from interfaces.commands.options import json_option, print_json, url_option
from schemas.access.callers import Scope
from schemas.errors import RagError, ScopeMissingError
from schemas.plurals import counted

SHOWN = 100
PAGE = 1000
"""The most documents that the service gives at once."""
UNWELL = 1
"""The exit code of `status` when the service is not well."""
COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}
OPEN_JOBS = ("running", "queued")

Json = Mapping[str, Any]


@click.command()
@click.option("--database", metavar="NAME", help="The collections of this database, TENANT/NAME.")
@url_option
@json_option
def collections(database: str | None, url: str, as_json: bool) -> None:
    """List the collections: name, number of documents, dimension, metric, embedding model.

    In a pipe the columns are separated by tabs and have no header. --json prints the answer of GET /collections.

    Exit code: 0, or 2 if they could not be listed.
    """
    from interfaces.terminal.screen import Screen

    screen = Screen()
    with service_to_ask(url) as service:
        answer = service.call("GET", "/collections", params={"database": database})
        if as_json:
            print_json(answer)
            return
        rows = [
            (each["name"], each["count"], each["dimension"], each["metric"], each["metadata"].get("embedding_model"))
            for each in answer["collections"]
        ]
        screen.table(("NAME", "DOCUMENTS", "DIMENSION", "METRIC", "MODEL"), rows, right=(1, 2))


@click.command()
@click.option("--collection", metavar="NAME", help="Only documents of this collection.")
@click.option("--source", metavar="TEXT", help="Only documents of this source.")
@click.option("--tag", metavar="TEXT", help="Only documents with this tag.")
@click.option("--kind", metavar="NAME", help="Only documents of this kind: pdf, html, markdown, …")
@click.option("--limit", type=click.IntRange(1, PAGE), default=SHOWN, show_default=True, help="The most documents.")
@url_option
@json_option
def documents(url: str, as_json: bool, **asked: Any) -> None:
    """List the documents of the text collections: source, kind, title, chunks, tags, time of the last change.

    In a pipe the columns are separated by tabs and have no header. --json prints the answer of GET /api/documents.

    Exit code: 0, or 2 if they could not be listed.
    """
    from interfaces.terminal.screen import Screen

    screen = Screen()
    with service_to_ask(url) as service:
        page = service.call("GET", "/api/documents", params=asked)
        if as_json:
            print_json(page)
            return
        rows = [
            [each[name] for name in ("source", "kind", "title", "chunks")]
            + [",".join(each["tags"]), (each["updated_at"] or "")[:19], each["collection"]]
            for each in page["documents"]
        ]
        screen.table(("SOURCE", "KIND", "TITLE", "CHUNKS", "TAGS", "UPDATED", "COLLECTION"), rows, right=(3,))
        if page["total"] > len(rows):
            click.echo(f"{len(rows)} of {page['total']} documents; --limit shows more", err=True)


@click.command()
@url_option
@json_option
@click.pass_context
def status(ctx: click.Context, url: str, as_json: bool) -> None:
    """Say how the service and its parts are: engine, catalogue, models, indexes, disk, watched folders and jobs.

    --json prints {service, health, watchers, jobs}.

    Exit code: 0 if the service is healthy or degraded; 1 if it is unhealthy, 2 if nothing answers.
    """
    from rich.style import Style
    from rich.text import Text

    from interfaces.terminal.screen import Screen, in_one_line

    screen = Screen()
    with service_to_ask(url) as service:
        health = service.report("/health")

        def watchers() -> list[Json]:
            found: list[Json] = service.get("/api/watchers")["watchers"]
            return found

        def jobs() -> list[Json]:
            return [each for status in OPEN_JOBS for each in service.get(f"/api/jobs?status={status}")["jobs"]]

        report = {"service": url.rstrip("/"), "health": health, "watchers": _shown(watchers), "jobs": _shown(jobs)}
        if as_json:
            print_json(report)
        else:
            for name, said in _lines(report):
                style = Style(color=COLOURS.get(health["status"])) if name == "service" else Style()
                screen.show(Text(f"{name:<12}").append(in_one_line(said), style))
    ctx.exit(UNWELL if health["status"] == "unhealthy" else 0)


def _shown(look: Callable[[], list[Json]]) -> list[Json] | None:
    """Return what a look finds, None when the service does not show it to this key."""
    try:
        return look()
    except RagError as error:
        if error.code != ScopeMissingError.code:
            raise
        return None


def _lines(report: Json) -> Iterator[tuple[str, str]]:
    health = report["health"]
    yield "service", f"{health['status']}, version {health['version']}, at {report['service']}"
    if "engine" in health:
        yield from _parts(health)
    else:
        yield "more", f"for keys with the scope {Scope.ADMIN}"
    for each in report["watchers"] or ():
        failed = f", {each['failed']} failed" if each["failed"] else ""
        told = f"{counted(each['files'], 'file')}, {each['stored']} stored{failed}"
        yield "watcher", f"{each['name']}: {each['state']}, {told}, into {each['collection']}{_because(each['reason'])}"
    for each in report["jobs"] or ():
        done = each["progress"]
        yield "job", f"{each['id']}: {each['status']}, {done['files_done']} of {counted(done['files'], 'file')} done"


def _parts(health: Json) -> Iterator[tuple[str, str]]:
    """Yield the lines of what administrators alone are told."""
    engine, catalog, disk = health["engine"], health["catalog"], health["disk"]
    restarts = f", {counted(engine['restarts'], 'restart')}" if engine.get("restarts") else ""
    yield "engine", f"{engine['status']}{restarts}{_because(engine.get('message'))}"
    yield "catalogue", f"{catalog['kind']}, {catalog['status']}{_because(catalog.get('message'))}"
    yield "collections", str(health["collections_count"])
    for name in ("embedding", "chat"):
        if model := health.get(name):
            provider = f" ({model['provider']})" if "provider" in model else ""
            yield name, f"{model['status']}{provider}{_because(model.get('error'))}"
    if (indexes := health["indexes"]) is not None:
        waiting = f"{counted(lag, 'write')} waiting" if (lag := health["index_lag"]) else "no write waits"
        yield "indexes", f"{indexes['ready']} ready, {waiting}"
        for each in indexes["rebuilding"]:
            yield "index", f"{each['collection']} is being rebuilt{_because(each.get('reason'))}"
        for each in indexes["faulty"]:
            yield "index", f"{each['collection']} is faulty{_because(each['fault'])}"
    floor = f"writes stop below {disk['floor_mb']:,} MB{_because(disk.get('message'))}"
    yield "disk", f"{disk['free_mb']:,.0f} MB free; {floor}"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
