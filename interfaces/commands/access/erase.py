"""`rag-wrapper erase`: documents, or what belongs to a user, disappear from every table and file."""

from __future__ import annotations

from typing import Any

import click

from interfaces.asked_service import service_to_ask
from interfaces.commands.options import JsonObject, config_option, json_option, print_json, url_option

MARGIN_SECONDS = 300.0
"""How much longer than it works at an erasure a service may take to answer: it waits for its turn before, and searches
files afterwards."""


@click.command()
@click.option(
    "--collection", metavar="NAME", help="The collection of the documents; of another database /TENANT/DATABASE/NAME."
)
@click.option("--where", type=JsonObject(), help="Erase its documents that match this filter.")
@click.option("--document", metavar="ID", help="Erase this document of it, with all its chunks and its original.")
@click.option("--all", is_flag=True, help="Erase them also when --where matches all there are.")
@click.option(
    "--user",
    metavar="ID",
    help="Erase what belongs to a user: the id of an API key, or user: and the name of a user.",
)
@config_option
@url_option
@json_option
def erase(url: str, as_json: bool, **asked: Any) -> None:
    """Erase documents, or what belongs to a user, from every table and file, and print a receipt.

    The running service does it. The engine is restarted once.
    An erasure that was interrupted is gone on with by the same command. See "Erasure" in the guide to operations.

    Exit code: 0 with a receipt, 2 when something is left or nothing was done.
    """
    from interfaces.terminal.screen import Screen
    from schemas.storage.erasure import LIMIT_SECONDS

    body = {name: each for name, each in asked.items() if each not in (None, False)}
    if body.keys() - {"all"} not in ({"collection", "where"}, {"collection", "document"}, {"user"}):
        raise click.UsageError("Say --collection with --where or --document, or --user alone.")
    with service_to_ask(url, timeout_seconds=LIMIT_SECONDS + MARGIN_SECONDS) as service:
        receipt = service.post("/api/erase", body)["receipt"]
        if as_json:
            print_json({"receipt": receipt})
            return
        rows = [(each["place"], each["removed"], each["done"]) for each in receipt["files"]]
    Screen().table(("PLACE", "REMOVED", "WHAT WAS DONE"), rows)
    for place in receipt["also_in"]:
        click.echo(f"The same words are also in {place}, which was not to be erased.", err=True)
    whose = f"and all else of {receipt['user']}" if "user" in body else f"of '{body['collection']}'"
    click.echo(f"Erased: {receipt['documents']} documents ({receipt['chunks']} stored pieces) {whose}.")
