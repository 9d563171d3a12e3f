"""The work of `rag-wrapper validate`."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click
import orjson

from interfaces.commands.options import log_to_stderr
from interfaces.commands.work.embedding import configured_embedding
from interfaces.service_address import network_to
from interfaces.service_key import service_key
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import ONCE
from retrieval.validation.gates import read_gate
from retrieval.validation.validation import (
    ACCURACY,
    CLEAN_UP,
    EMBEDDINGS,
    INDEXING,
    INFRASTRUCTURE,
    Report,
    Step,
    Validation,
)
from schemas.settings import read_retrieval_settings

TITLES = {
    INFRASTRUCTURE: "Infrastructure",
    EMBEDDINGS: "Embedding quality",
    INDEXING: "Indexing",
    ACCURACY: "Retrieval accuracy",
    CLEAN_UP: "Clean-up",
}


def _service(url: str) -> WrapperClient:
    network = network_to(url)
    return WrapperClient.at(url, service_key(url, network), network=network, retry=ONCE)


def validate(ctx: click.Context, gate: Path | None, url: str, as_json: bool) -> None:
    """Validate the service at `url` by the gate, None for the built-in one."""
    log_to_stderr(logging.ERROR)
    asked = read_gate() if gate is None else read_gate(gate)
    collection = read_retrieval_settings().context_collection
    steps: list[Step] = []
    with (
        closing(_service(url)) as service,
        service.reading(),
        configured_embedding() as embedding,
    ):
        validation = Validation(service, embedding, asked, collection=collection)
        for step in validation.steps():
            if not as_json:
                _print_step(step, steps[-1] if steps else None)
            steps.append(step)
    report = validation.report(steps)
    if as_json:
        whole = {**asdict(report), "accuracy": report.accuracy, "passed": report.passed}
        click.echo(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
    else:
        _print_verdict(report)
    ctx.exit(0 if report.passed else 1)


def _print_step(step: Step, before: Step | None) -> None:
    if before is None or before.phase != step.phase:
        click.secho(f"\n{TITLES[step.phase]}", bold=True)
    mark = click.style("PASSED", fg="green") if step.passed else click.style("FAILED", fg="red")
    click.echo(f"  {mark}  {step.name}: {step.found} ({step.latency_ms:.1f} ms)")


def _print_verdict(report: Report) -> None:
    failed = sum(not step.passed for step in report.steps if step.phase != ACCURACY)
    share = f"{report.accuracy:.0%} ({report.relevant} of {report.queries}, required {report.required_accuracy:.0%})"
    click.echo()
    if report.passed:
        click.secho(f"VALIDATION PASSED: accuracy {share}", fg="green")
    elif report.parts_passed:
        click.secho(f"ACCURACY FAILED: {share}. Look at the embedding model and at what is indexed.", fg="yellow")
    else:
        click.secho(f"VALIDATION FAILED: {failed} steps failed. Mend them first.", fg="red")
