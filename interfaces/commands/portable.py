"""`rag-wrapper export` and `rag-wrapper import`: collections as files, through the running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from interfaces.commands.options import documents_progress, url_option
from providers.rag_wrapper.client import WrapperClient
from retrieval import portable

_collections = click.option(
    "--collection", "names", multiple=True, metavar="NAME", help="Only this one; may be given several times."
)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@_collections
@url_option
def export(directory: Path, names: tuple[str, ...], url: str) -> None:
    """Write collections into DIRECTORY, which must be new or empty: a file of lines for each, and a manifest.

    Each collection is exported as of one moment; the service may be written to meanwhile.

    Exit code: 0 all is written, 2 nothing of use was.
    """
    with closing(WrapperClient.at(url)) as store, store.reading(), _progress() as progress:
        entries = portable.export_collections(store, directory, names, progress)
    for entry in entries:
        click.echo(f"{entry.name}: {entry.count} documents, {entry.bytes} bytes")
    click.echo(f"{len(entries)} collections in {directory}")


@click.command("import")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_collections
@url_option
@click.pass_context
def import_(ctx: click.Context, directory: Path, names: tuple[str, ...], url: str) -> None:
    """Bring the collections of an export in DIRECTORY into the service, and compare what is there then with it.

    Repeat it when it was interrupted: what is there already is not written again.

    Exit code: 0 all is as exported, 1 something differs, 2 nothing was imported or the service failed.
    """
    with closing(WrapperClient.at(url)) as store, store.reading(), _progress() as progress:
        outcomes = portable.import_collections(store, directory, names, progress)
    for outcome in outcomes:
        click.echo(
            f"{outcome.name}: {outcome.created} created, {outcome.updated} updated, {outcome.unchanged} unchanged"
        )
        for difference in outcome.differences:
            click.echo(f"{outcome.name}: {difference}", err=True)
    ctx.exit(1 if any(outcome.differences for outcome in outcomes) else 0)


@contextmanager
def _progress() -> Iterator[portable.Progress]:
    with documents_progress() as progress:
        task = progress.add_task("", total=None)

        def tell(name: str, done: int, total: int) -> None:
            progress.update(task, description=name, completed=done, total=total)

        yield tell
