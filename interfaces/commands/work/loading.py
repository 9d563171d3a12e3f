"""The work of `rag-wrapper load`, and the embedding connection of commands that embed."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from interfaces.commands.options import log_to_stderr, printable
from interfaces.commands.priority import give_way
from interfaces.service_address import network_to
from interfaces.service_key import service_key
from providers.base import ProviderContext
from providers.embeddings.base import EmbeddingProvider
from providers.rag_wrapper.dialect import PATIENT
from providers.rag_wrapper.provider import RagWrapperProvider
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from retrieval.ingest.bounds import MAX_NAMED
from retrieval.ingest.loading import LoadProgress, LoadReport
from retrieval.ingest.loading import load as load_files
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader, ReadingLimits
from schemas.configuration import tidied
from schemas.plurals import counted
from schemas.settings import read_registry_settings, read_retrieval_settings


def load(
    ctx: click.Context,
    path: Path,
    collection: str | None,
    connection: str,
    embedding_provider: str,
    embedding_url: str | None,
    embedding_model: str | None,
    url: str,
    source_prefix: str | None,
    profile: str | None,
    max_tokens: int | None,
    max_file_mb: int,
    follow_links: bool,
    full_speed: bool,
    verbose: bool,
) -> None:
    """Load what `path` names. The options are those of the command; the embedding connection is what they describe."""
    log_to_stderr(logging.WARNING)
    if not full_speed:
        give_way()
    settings = read_retrieval_settings()
    target = settings.documents_collection if collection is None else collection
    embedding = {
        "url": embedding_url,
        "model": embedding_model,
        "api_key": os.environ.get("RAG_EMBEDDING_API_KEY") or None,
    }
    with (
        _service(url) as provider,
        embedding_connection(embedding_provider, embedding) as embed,
        DocumentReader(ReadingLimits.of(settings)) as reader,
        _progress_bar() as bar,
    ):
        report = load_files(
            path,
            provider=provider,
            collection=target,
            embedding=embed,
            chunking=chunking_of(settings, embed, profile=profile, max_tokens=max_tokens),
            reader=reader,
            on_progress=bar,
            source_prefix=source_prefix,
            max_file_mb=max_file_mb,
            follow_links=follow_links,
        )
    _name(report.warnings, len(report.warnings) if verbose else MAX_NAMED)
    _name([f"passed over: {each}" for each in report.passed_over], len(report.passed_over) if verbose else MAX_NAMED)
    _name([str(each) for each in report.errors], len(report.errors) if verbose else MAX_NAMED)
    click.echo(summary(target, report))
    ctx.exit(1 if report.errors else 0)


def embedding_connection(provider: str, config: dict[str, str | None]) -> EmbeddingProvider:
    """Open the connection that the variables describe. A provider on this machine does not need all of them."""
    registry = discover(ProviderRegistry())
    known = registry.provider("embedding", provider).connection_schema()["properties"]
    given = {name: value for name, value in config.items() if name in known}
    context = ProviderContext(network=network_to(config.get("url") or ""))
    return cast(EmbeddingProvider, registry.connect("embedding", provider, given, context))


def configured_embedding() -> EmbeddingProvider:
    """Open the connection that the service's own variables describe. Raises ConfigurationError when it cannot be
    used."""
    settings = read_registry_settings()
    config = {
        "url": settings.embedding_url or None,
        "model": settings.embedding_model or None,
        "api_key": os.environ.get("RAG_EMBEDDING_API_KEY") or None,
    }
    return embedding_connection(settings.embedding_provider, config)


def _name(lines: Sequence[str], most: int) -> None:
    for line in lines[:most]:
        click.echo(printable(line), err=True)
    if len(lines) > most:
        click.echo(f"… and {len(lines) - most} more", err=True)


def summary(collection: str, report: LoadReport) -> str:
    """Return the load in one line: what is stored, what was done for that, what is missing."""
    extent = f"{counted(report.chunks, 'chunk')} from {counted(report.sources, 'file')}"
    deeds = [
        f"{count} {word}"
        for word in ("created", "updated", "unchanged", "deleted", "skipped")
        if (count := getattr(report, word))
    ]
    if report.passed_over:
        deeds.append(f"{len(report.passed_over)} passed over")
    if report.errors:
        deeds.append(f"{len(report.errors)} failed")
    if not report.indexed:
        deeds.append("the index is still catching up")
    if not report.changed and not report.errors:
        passed_over = f", {len(report.passed_over)} passed over" if report.passed_over else ""
        return f"nothing changed: {extent} {'is' if report.chunks == 1 else 'are'} already there{passed_over}"
    return f"{collection}: {extent}: {', '.join(deeds) or 'nothing to store'}"


class _Bar:
    """A bar that shows the progress of a load and is called with each step of it."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, chunks=0)

    def __call__(self, at: LoadProgress) -> None:
        done = at.done_bytes if at.total_bytes else 1
        total = at.total_bytes or 1
        self._progress.update(self._task, description=at.source, completed=done, total=total, chunks=at.chunks)


def _service(url: str) -> RagWrapperProvider:
    network = network_to(url)
    config = tidied({"url": url, "api_key": service_key(url, network)})
    return RagWrapperProvider(config, ProviderContext(network=network), place=url, retry=PATIENT)


@contextmanager
def _progress_bar() -> Iterator[_Bar]:
    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[chunks]} chunks"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Bar(progress)
