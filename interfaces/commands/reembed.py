"""`rag-wrapper reembed`: a collection gets the vectors of another model, through the running service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from interfaces.asked_service import service_at
from interfaces.commands.options import progress_bar, url_option

if TYPE_CHECKING:
    from providers.rag_wrapper.client import WrapperClient
    from providers.rag_wrapper.dialect import Body

_POLL_SECONDS = 0.5
_RUNNING, _FAILED, _COMPLETE = "running", "failed", "complete"


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
            state = _follow(service, name)
    click.echo(_told(state))
    if state["error"]:
        click.echo(f"{name}: {state['error']}", err=True)
    ctx.exit(1 if state["status"] == _FAILED else 0)


def _drop(service: WrapperClient, name: str, *, old: bool) -> None:
    """Drop the vectors beside a collection, unless they are new where the caller means `old` ones, or the reverse."""
    is_complete = service.reembedding(name)["status"] == _COMPLETE
    if is_complete != old:
        raise click.ClickException(
            f"{name}: the new vectors are complete: --drop drops the old ones"
            if is_complete
            else f"{name}: the new vectors are not complete: --cancel gives them up"
        )
    dropped = service.drop_vectors(name)
    click.echo(
        f"{name}: dropped the vectors of {_model(dropped['dropped_model'])}, searched by {_model(dropped['model'])}"
    )


def _follow(service: WrapperClient, name: str) -> Body:
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
