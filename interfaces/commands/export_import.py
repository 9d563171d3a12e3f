"""`rag-wrapper export` and `rag-wrapper import`: collections as files, through the running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interfaces.asked_service import service_at
from interfaces.commands.options import progress_bar, url_option

if TYPE_CHECKING:
    from interfaces.commands.work.collection_files import Progress

_collections = click.option(
    "--collection",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this collection; may be given several times. One of another database: /TENANT/DATABASE/NAME.",
)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@_collections
@url_option
def export(directory: Path, names: tuple[str, ...], url: str) -> None:
    """Write collections into DIRECTORY, which must be new or empty: a file of lines for each, and a manifest. Without
    --collection they are those of all databases.

    Each collection is exported as of one moment, whatever is written to the service meanwhile.

    Exit code: 0 if everything is written, 2 if there is no complete export.
    """
    from interfaces.commands.work import collection_files

    with service_at(url) as store, _progress() as progress:
        entries = collection_files.export_collections(store, directory, names, progress)
    for entry in entries:
        click.echo(f"{entry.name}: {entry.count} documents, {entry.bytes} bytes")
    click.echo(f"{len(entries)} collections in {directory}")


@click.command("import")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_collections
@url_option
@click.pass_context
def import_(ctx: click.Context, directory: Path, names: tuple[str, ...], url: str) -> None:
    """Import the collections of the export in DIRECTORY, and compare the service with it afterwards. Databases that
    are missing are made.

    Repeat an import that was interrupted: documents that are stored already are not written again.

    Exit code: 0 if everything is as exported, 1 if something differs, 2 if nothing was imported or the service failed.
    """
    from interfaces.commands.work import collection_files

    with service_at(url) as store, _progress() as progress:
        outcomes = collection_files.import_collections(store, directory, names, progress)
    for outcome in outcomes:
        click.echo(
            f"{outcome.name}: {outcome.created} created, {outcome.updated} updated, {outcome.unchanged} unchanged"
        )
        for difference in outcome.differences:
            click.echo(f"{outcome.name}: {difference}", err=True)
    ctx.exit(1 if any(outcome.differences for outcome in outcomes) else 0)


@contextmanager
def _progress() -> Iterator[Progress]:
    with progress_bar() as show:
        yield lambda name, done, total: show(description=name, completed=done, total=total)
