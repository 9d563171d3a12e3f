"""`rag-wrapper load`: bring a collection up to date with files, through the running service."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from interfaces.commands.options import log_to_stderr, url_option
from providers.base import ProviderContext
from providers.embeddings.base import EmbeddingProvider
from providers.rag_wrapper.provider import RagWrapperProvider
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from retrieval.chunking import DEFAULT_MAX_TOKENS
from retrieval.ingest import profiles
from retrieval.ingest.loading import LoadProgress, LoadReport, Profile, by_sections
from retrieval.ingest.loading import load as load_files
from schemas.plurals import counted
from schemas.settings import read_registry_settings, read_retrieval_settings

_SHOWN_ERRORS = 50


PROFILES = ("sections", "whole", "windows")


@click.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--collection", required=True, metavar="NAME", help="Collection to fill; created when missing.")
@click.option(
    "--connection",
    type=click.Choice(["default"]),
    default="default",
    show_default=True,
    help="Embedding connection: default is the one that the options and variables below describe.",
)
@click.option(
    "--embedding-provider",
    envvar="RAG_EMBEDDING_PROVIDER",
    default="minilm",
    metavar="NAME",
    help="minilm (on this machine), openai (and all that speak its protocol) or ollama.",
    show_default=True,
    show_envvar=True,
)
@click.option("--embedding-url", envvar="RAG_EMBEDDING_URL", metavar="URL", show_envvar=True, help="Its address.")
@click.option("--embedding-model", envvar="RAG_EMBEDDING_MODEL", metavar="NAME", show_envvar=True, help="Its model.")
@url_option
@click.option(
    "--source-prefix",
    default="",
    metavar="TEXT",
    help="Prefix of each source's path, which tells apart folders that have files of the same name.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="sections",
    show_default=True,
    help="How files are split: sections cuts at every heading, whole keeps a document in one piece as long as it fits, "
    "windows makes overlapping pieces of similar length.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(min=16),
    help=f"Longest chunk; by default {DEFAULT_MAX_TOKENS} for sections, and as the settings say for the others.",
)
@click.option("--follow-links", is_flag=True, help="Load what symbolic links lead to, even outside of the folder.")
@click.pass_context
def load(
    ctx: click.Context,
    path: Path,
    collection: str,
    connection: str,
    embedding_provider: str,
    embedding_url: str | None,
    embedding_model: str | None,
    url: str,
    source_prefix: str,
    profile: str,
    max_tokens: int | None,
    follow_links: bool,
) -> None:
    """Load PATH, a file or a folder, into a collection of the running service.

    Markdown is split by heading, text by paragraph; a JSONL line {id, title, text, metadata, embedding} is one
    document, and a folder with corpus.jsonl is a BEIR data set. Loading again embeds and stores only what changed.

    The key of an embedding service is read from RAG_EMBEDDING_API_KEY.

    Exit code: 0 if everything is loaded, 1 if some inputs could not be, 2 if nothing could be done or the service
    failed.
    """
    log_to_stderr(logging.WARNING)
    embedding = {
        "url": embedding_url,
        "model": embedding_model,
        "api_key": os.environ.get("RAG_EMBEDDING_API_KEY") or None,
    }
    with (
        RagWrapperProvider({"url": url}, place=url) as provider,
        embedding_connection(embedding_provider, embedding) as embed,
        _progress_bar() as bar,
    ):
        report = load_files(
            path,
            provider=provider,
            collection=collection,
            embedding=embed,
            on_progress=bar,
            source_prefix=source_prefix,
            profile=_profile(profile, max_tokens, embed),
            follow_links=follow_links,
        )
    for error in report.errors[:_SHOWN_ERRORS]:
        click.echo(str(error), err=True)
    if len(report.errors) > _SHOWN_ERRORS:
        click.echo(f"… and {len(report.errors) - _SHOWN_ERRORS} more", err=True)
    click.echo(summary(collection, report))
    ctx.exit(1 if report.errors else 0)


def embedding_connection(provider: str, config: dict[str, str | None]) -> EmbeddingProvider:
    """Open the connection that the variables describe. A provider on this machine does not need all of them."""
    registry = discover(ProviderRegistry())
    known = registry.provider("embedding", provider).connection_schema()["properties"]
    given = {name: value for name, value in config.items() if name in known}
    return cast(EmbeddingProvider, registry.connect("embedding", provider, given, ProviderContext()))


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


def _profile(name: str, max_tokens: int | None, embedding: EmbeddingProvider) -> Profile:
    settings = read_retrieval_settings()
    if name == "sections":
        return by_sections(max_tokens or DEFAULT_MAX_TOKENS)
    if name == "whole":
        splitter = profiles.whole(embedding, max_tokens or settings.whole_max_tokens, levels=settings.whole_levels)
    else:
        most = max_tokens or settings.chunk_max_tokens
        splitter = profiles.windows(embedding, most, min(settings.chunk_overlap_tokens, most // 4))
    return lambda kind: splitter


def summary(collection: str, report: LoadReport) -> str:
    """Return the load in one line: what is stored, what was done for that, what is missing."""
    extent = f"{counted(report.chunks, 'chunk')} from {counted(report.sources, 'file')}"
    deeds = [
        f"{count} {word}"
        for word in ("created", "updated", "unchanged", "deleted", "skipped")
        if (count := getattr(report, word))
    ]
    if report.errors:
        deeds.append(counted(len(report.errors), "error"))
    if not report.indexed:
        deeds.append("the index is still catching up")
    if not report.changed and not report.errors:
        return f"nothing changed: {extent} {'is' if report.chunks == 1 else 'are'} already there"
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
