"""`rag-wrapper check` and `rebuild`, the doctor by hand, and `reembed`, which gives a collection the vectors of another
model: through the running service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from interfaces.asked_service import service_at
from interfaces.commands.options import progress_bar, url_option
from schemas.errors import InvalidInputError
from schemas.storage.engine_records import ENGINE_RECORDS

if TYPE_CHECKING:
    from providers.rag_wrapper.client import WrapperClient
    from providers.rag_wrapper.dialect import Body

_POLL_SECONDS = 0.2
_LOOK_SECONDS = 120.0
_RUNNING, _FAILED, _COMPLETE = "running", "failed", "complete"


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
        was_measured = not index["documents"] or index["recall_measured_at"] != before["recall_measured_at"]
        if was_measured and index["checked_at"] != before["checked_at"]:
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


@click.command()
@click.argument("name", metavar="COLLECTION")
@click.option("--connection", metavar="ID", help="Make vectors by the model of this embedding connection.")
@click.option("--wait", is_flag=True, help="Wait until the collection is switched to the new vectors.")
@click.option("--back", is_flag=True, help="Switch to the old vectors: possible until documents are written.")
@click.option("--drop", is_flag=True, help="Drop the vectors that are kept, once the new ones are complete.")
@click.option("--cancel", is_flag=True, help="Give up the vectors that are being made.")
@url_option
@click.pass_context
def reembed(
    ctx: click.Context, name: str, connection: str | None, wait: bool, back: bool, drop: bool, cancel: bool, url: str
) -> None:
    """Give a collection the vectors of another model, while it is used, or tell how far that is.

    The new vectors are made beside the old ones, by the service. When they are complete, the collection is switched to
    them in one step. The old ones are kept until you drop them.

    Exit code: 0 if that was done, 1 if the re-embedding has failed, 2 if it was refused.
    """
    if sum((connection is not None, back, drop, cancel)) > 1:
        raise click.UsageError("Only one of --connection, --back, --drop and --cancel at a time.")
    if wait and (back or drop or cancel):
        raise click.UsageError("--wait goes with --connection, or alone.")
    with service_at(url) as service:
        if drop or cancel:
            _drop(service, name, old=drop)
            return
        if back:
            state = service.reembed(name, back=True)
            click.echo(f"{name}: searched by the old vectors again, {_model(state['model'])}")
            return
        state = service.reembedding(name) if connection is None else service.reembed(name, connection=connection)
        if wait and state["status"] == _RUNNING:
            state = _follow_vectors(service, name)
    click.echo(_told(state))
    if state["error"]:
        click.echo(f"{name}: {state['error']}", err=True)
    ctx.exit(1 if state["status"] == _FAILED else 0)


def _drop(service: WrapperClient, name: str, *, old: bool) -> None:
    """Drop the vectors beside a collection, unless they are new where the caller means `old` ones, or the reverse."""
    is_complete = service.reembedding(name)["status"] == _COMPLETE
    if is_complete != old:
        raise InvalidInputError(
            f"{name}: the new vectors are complete: --drop drops the old ones"
            if is_complete
            else f"{name}: the new vectors are not complete: --cancel gives them up"
        )
    dropped = service.drop_vectors(name)
    click.echo(
        f"{name}: dropped the vectors of {_model(dropped['dropped_model'])}, searched by {_model(dropped['model'])}"
    )


def _follow_vectors(service: WrapperClient, name: str) -> Body:
    """Wait for the end of a re-embedding. Return its state."""
    told: str | None = None
    with progress_bar(name) as show:
        while (state := service.reembedding(name))["status"] == _RUNNING:
            show(completed=state["documents_done"], total=state["documents"])
            if state["error"] and state["error"] != told:
                click.echo(f"{name}: {state['error']}", err=True)
            told = state["error"]
            time.sleep(_POLL_SECONDS)
    return state


def _told(state: Body) -> str:
    name, model = state["collection"], _model(state["model"])
    if state["status"] == _COMPLETE:
        kept = f"the vectors of {_model(state['from_model'])} are kept"
        return f"{name}: {state['documents']} documents, searched by the vectors of {model}; {kept}"
    return f"{name}: {state['status']}, {state['documents_done']} of {state['documents']} documents by {model}"


def _model(model: str | None) -> str:
    return "an unknown model" if model is None else f"'{model}'"
