"""`rag-wrapper validate`: check that a service finds what it should before anybody relies on it."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from interfaces.asked_service import network_to, service_at
from interfaces.commands.options import json_option, log_to_stderr, print_json, url_option

if TYPE_CHECKING:
    from providers.embeddings.base import EmbeddingProvider
    from retrieval.validation.validation import Report, Step


@click.command()
@click.option(
    "--gate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    show_default="three documents and three queries",
    help="YAML or JSON file with documents, queries and what must be found.",
)
@url_option
@json_option
@click.pass_context
def validate(ctx: click.Context, gate: Path | None, url: str, as_json: bool) -> None:
    """Check the parts of a running service, the embeddings of this configuration, and the accuracy of what it finds.

    The documents of the gate are indexed, searched for and deleted again. Embeddings are made in this process, with
    the variables that the service reads too (RAG_EMBEDDING_…).

    Exit code: 0 if everything passed, 1 if something did not, 2 if nothing could be tried.
    """
    from providers.rag_wrapper.dialect import ONCE
    from retrieval.validation.gates import read_gate
    from retrieval.validation.validation import Validation
    from schemas.settings import read_registry_settings, read_retrieval_settings

    log_to_stderr(logging.ERROR)
    asked = read_gate() if gate is None else read_gate(gate)
    collection = read_retrieval_settings().context_collection
    settings = read_registry_settings()
    config = {
        "url": settings.embedding_url or None,
        "model": settings.embedding_model or None,
        "api_key": os.environ.get("RAG_EMBEDDING_API_KEY") or None,
    }
    steps: list[Step] = []
    with (
        service_at(url, retry=ONCE) as service,
        embedding_connection(settings.embedding_provider, config) as embedding,
    ):
        validation = Validation(service, embedding, asked, collection=collection)
        for step in validation.steps():
            if not as_json:
                _print_step(step, steps[-1] if steps else None)
            steps.append(step)
    report = validation.report(steps)
    if as_json:
        print_json({**asdict(report), "accuracy": report.accuracy, "passed": report.passed})
    else:
        _print_verdict(report)
    ctx.exit(0 if report.passed else 1)


def embedding_connection(provider: str, config: dict[str, str | None]) -> EmbeddingProvider:
    """Open the connection that the variables describe. A provider on this machine does not need all of them. Raises
    ConfigurationError when it cannot be used."""
    from providers.base import ProviderContext
    from registry.provider_discovery import discover
    from registry.provider_registry import ProviderRegistry

    registry = discover(ProviderRegistry())
    known = registry.provider("embedding", provider).connection_schema()["properties"]
    given = {name: value for name, value in config.items() if name in known}
    context = ProviderContext(network=network_to(config.get("url") or ""))
    return cast("EmbeddingProvider", registry.connect("embedding", provider, given, context))


def _print_step(step: Step, before: Step | None) -> None:
    if before is None or before.phase != step.phase:
        click.secho(f"\n{step.phase.capitalize()}", bold=True)
    mark = click.style("PASSED", fg="green") if step.passed else click.style("FAILED", fg="red")
    click.echo(f"  {mark}  {step.name}: {step.found} ({step.latency_ms:.1f} ms)")


def _print_verdict(report: Report) -> None:
    from retrieval.validation.validation import ACCURACY

    failed = sum(not step.passed for step in report.steps if step.phase != ACCURACY)
    share = f"{report.accuracy:.0%} ({report.relevant} of {report.queries}, required {report.required_accuracy:.0%})"
    click.echo()
    if report.passed:
        click.secho(f"VALIDATION PASSED: accuracy {share}", fg="green")
    elif report.parts_passed:
        click.secho(f"ACCURACY FAILED: {share}. Look at the embedding model and at what is indexed.", fg="yellow")
    else:
        click.secho(f"VALIDATION FAILED: {failed} steps failed. Mend them first.", fg="red")
