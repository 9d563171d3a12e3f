"""`rag-wrapper validate`: check that a service finds what it should before anybody relies on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interfaces.commands.options import url_option


@click.command()
@click.option(
    "--gate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    show_default="three documents and three queries",
    help="YAML or JSON file with documents, queries and what must be found.",
)
@url_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def validate(ctx: click.Context, **given: Any) -> None:
    """Check the parts of a running service, the embeddings of this configuration, and the accuracy of what it finds.

    The documents of the gate are indexed, searched for and deleted again. Embeddings are made in this process, with
    the variables that the service reads too (RAG_EMBEDDING_…).

    Exit code: 0 if everything passed, 1 if something did not, 2 if nothing could be tried.
    """
    from interfaces.commands.work.validating import validate

    validate(ctx, **given)
