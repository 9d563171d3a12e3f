"""`rag-wrapper check` and `rag-wrapper rebuild`: the doctor by hand, through the running service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from interfaces.asked_service import service_at
from interfaces.commands.options import progress_bar, url_option
from schemas.storage.engine_records import ENGINE_RECORDS

if TYPE_CHECKING:
    from providers.rag_wrapper.client import WrapperClient
    from providers.rag_wrapper.dialect import Body

_POLL_SECONDS = 0.2
_LOOK_SECONDS = 120.0


@click.command()
@click.argument("names", metavar="[COLLECTION]...", nargs=-1)
@url_option
@click.pass_context
def check(ctx: click.Context, names: tuple[str, ...], url: str) -> None:
    """Check the indexes of these collections, or of all of all databases when you name none. One of another database
    than the default one is named /TENANT/DATABASE/NAME.

    The check compares counts, lets a sample of documents find themselves, and measures the size of the files and the
    recall: how many of the ten nearest documents the index finds. An index that is found to be wrong is rebuilt at
    once.

    Exit code: 0 if all are well, 1 if one is not, 2 if they could not be checked.
    """
    with service_at(url) as service:
        chosen = names or tuple(each["name"] for each in service.collections_everywhere())
        wrong = [name for name in chosen if not _is_well(service, name)]
    click.echo(f"{len(chosen) - len(wrong)} of {len(chosen)} indexes are well")
    ctx.exit(1 if wrong else 0)


@click.command()
@click.argument("names", metavar="COLLECTION...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Rebuild all collections of all databases.")
@click.option(
    "--records",
    type=click.Choice(ENGINE_RECORDS),
    help="What the engine's records have from then on: everything, or ids and vectors only. By default as before.",
)
@url_option
def rebuild(names: tuple[str, ...], everything: bool, records: str | None, url: str) -> None:
    """Rebuild the indexes of these collections from the catalogue, and wait until they are ready.

    Meanwhile queries are answered more slowly, and writes are stored and wait for the index.

    Exit code: 0 if all are ready, 2 if one is not.
    """
    if bool(names) == everything:
        raise click.UsageError("Name the collections, or say --all.")
    with service_at(url) as service:
        chosen = [each["name"] for each in service.collections_everywhere()] if everything else list(names)
        # All are requested before the first is awaited; a missing one stops the command before anything is done.
        before = {name: service.index(name) for name in chosen}
        for name in chosen:
            service.rebuild_index(name, records=records)
        for name in chosen:
            index = _follow(service, name, before[name]["rebuilds"])
            click.echo(f"{name}: rebuilt, {index['documents']} documents")


def _is_well(service: WrapperClient, name: str) -> bool:
    before = service.index(name)
    service.check_index(name)
    deadline = time.monotonic() + _LOOK_SECONDS
    while True:
        index = service.index(name)
        if index["rebuild"] is not None:
            done, of = index["rebuild"]["documents"], index["rebuild"]["of"]
            click.echo(f"{name}: is being rebuilt ({done} of {of}): {index['rebuild']['reason']}", err=True)
            return False
        if _was_looked_at(index, before):
            break
        if time.monotonic() > deadline:
            click.echo(f"{name}: not checked within {_LOOK_SECONDS:.0f} seconds", err=True)
            return False
        time.sleep(_POLL_SECONDS)
    recall = "not measured" if index["recall_at_10"] is None else f"{index['recall_at_10']:.3f}"
    if index["filtered_recall_at_10"] is not None:
        recall += f", with filters {index['filtered_recall_at_10']:.3f}"
    size = "" if index["index_bytes"] is None else f", {index['index_bytes'] / 2**20:.1f} MB"
    click.echo(f"{name}: {index['documents_held']} documents{size}, recall@10 {recall}")
    if index["fault"] is not None:
        click.echo(f"{name}: {index['fault']}", err=True)
    return index["fault"] is None


def _was_looked_at(index: Body, before: Body) -> bool:
    measured = not index["documents"] or index["recall_measured_at"] != before["recall_measured_at"]
    return measured and index["checked_at"] != before["checked_at"]


def _follow(service: WrapperClient, name: str, rebuilds_before: int) -> Body:
    """Wait for the end of a rebuild. Return its report."""
    with progress_bar(name) as show:
        while True:
            index = service.index(name)
            if index["rebuilds"] > rebuilds_before:
                return index
            if index["rebuild"] is not None:
                show(completed=index["rebuild"]["documents"], total=index["rebuild"]["of"])
            time.sleep(_POLL_SECONDS)
