"""The work of `rag-wrapper bench`."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from interfaces.commands.options import documents_progress, log_to_stderr
from interfaces.commands.scratch_service import scratch_service
from interfaces.commands.work import bench_report
from interfaces.commands.work.uploading import Uploader, clients_at
from interfaces.given_connections import built_in_connections
from interfaces.layers import chat_passages, collection_choice, search_engine, search_oracles
from providers.base import ProviderContext
from providers.outbound.addresses import ConnectPolicy
from providers.outbound.network import Network
from providers.outbound.trust import Trust
from registry.connections import Connections
from registry.embedding.cache import EmbeddingCache
from registry.embedding.queries import QueryEmbeddings
from registry.placeholders.resolving import SERVICE_KEYS, Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import StoredConnections
from retrieval.bench.query_set import Query, QuerySet, read_query_set
from retrieval.bench.running import Ask, Bench, Missed, Plan, Run
from retrieval.chat.passages import ChatPassages
from retrieval.ingest.walk import walk
from retrieval.search.asking import UnknownOracleError
from retrieval.search.corpus import Corpus
from retrieval.search.engine import SearchEngine
from retrieval.search.reranking import Reranking
from schemas.access.owners import NOBODY_KNOWN
from schemas.connections import Connection
from schemas.contracts.chat import ChatRequest, Message
from schemas.errors import InvalidInputError
from schemas.settings import read_registry_settings, read_retrieval_settings
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase


def bench(
    ctx: click.Context,
    directory: Path,
    url: str | None,
    collection: str,
    no_load: bool,
    oracles: tuple[str, ...],
    limit: int,
    fusion: str | None,
    rrf_k: int | None,
    fetch_multiplier: int | None,
    fetch_min: int | None,
    weights: Mapping[str, float],
    with_ask: bool,
    verbose: bool,
    compare: Path | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Measure the search with the query set in `directory`. The options are those of the command."""
    log_to_stderr(logging.ERROR)
    if no_load and url is None:
        raise click.UsageError("--no-load needs --url: a new service has nothing yet.")
    if plot is not None:
        bench_report.check_plotting()
    earlier = None if compare is None else bench_report.read_report(compare)
    query_set = read_query_set(directory)
    settings = read_retrieval_settings()
    settings = replace(
        settings,
        fusion=fusion or settings.fusion,
        rrf_k=rrf_k or settings.rrf_k,
        fetch_multiplier=fetch_multiplier or settings.fetch_multiplier,
        fetch_min=fetch_min or settings.fetch_min,
    )
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rag-wrapper-bench-")))
        service_url = url or stack.enter_context(scratch_service(scratch, **_embedding_variables())).url
        connections = stack.enter_context(_connections(scratch, service_url))
        if not no_load:
            _load(query_set, collection, service_url)
        # Nothing is kept: each query is measured with its embedding.
        embeddings = stack.enter_context(closing(QueryEmbeddings(connections, EmbeddingCache(ttl_seconds=0))))
        choice = collection_choice(Corpus(connections), connections, settings)
        reranking = stack.enter_context(closing(Reranking(connections)))
        found_by = search_oracles(embeddings, settings)
        engine = stack.enter_context(closing(search_engine(found_by, choice, reranking, settings)))
        plan = Plan(collection, limit, settings.fusion, weights)
        ask = _ask(chat_passages(engine, settings)) if with_ask else None
        runs, missed = _measure(engine, query_set, oracles, plan, ask, verbose=verbose)
    report = bench_report.report(query_set, runs, settings, limit, weights)
    compared = [] if earlier is None else bench_report.comparisons(earlier, report)
    if plot is not None:
        bench_report.plot(report, plot)
    if as_json:
        bench_report.print_json(report, compared)
    else:
        bench_report.print_tables(report, compared)
    bench_report.print_missed(missed, err=as_json)
    failures = sum(run.failures for run in runs)
    if failures:
        click.echo(
            f"An oracle could not answer {failures} queries: the figures are of what the others found.", err=True
        )
    ctx.exit(1 if failures else 0)


def _embedding_variables() -> dict[str, Any]:
    """Return what has a service embed as the variables of this process say."""
    given = {name.removeprefix("RAG_").lower(): text for name, text in os.environ.items()}
    return {name: text for name, text in given.items() if name.startswith("embedding_")}


@contextmanager
def _connections(scratch: Path, url: str) -> Iterator[Connections]:
    """Give the connections of a measurement: `local` is the measured service, and `default` is the embedding connection
    of the settings."""
    settings = read_registry_settings()
    catalog = Catalog(SQLiteDatabase(scratch / "connections.sqlite"))
    catalog.open()
    embedding = [each for each in built_in_connections(settings) if each.kind == "embedding"]
    made = Connections(
        discover(ProviderRegistry()),
        StoredConnections(catalog),
        Placeholders(os.environ, settings.env_patterns, settings.secret_dirs),
        ProviderContext(
            network=Network(
                ConnectPolicy.parse(settings.connect_policy),
                trust=Trust(settings.ca_file) if settings.ca_file else None,
            )
        ),
        given=[Connection("local", "rag", "chromadb-wrapper", {"url": url}), *embedding],
        own_placeholders=Placeholders(os.environ, SERVICE_KEYS, (), own=frozenset()),
    )
    try:
        yield made
    finally:
        made.close()
        catalog.close()


def _load(query_set: QuerySet, collection: str, url: str) -> None:
    with documents_progress() as progress, clients_at(url) as clients:
        task = progress.add_task("loading", total=None)

        def tell(done: int, total: int, chunks: int) -> None:
            progress.update(task, completed=done, total=total, description=f"loading, {chunks} documents")

        found = walk(query_set.corpus)
        files = {f"{found.folder}/{each.path_below}": each for each in found.files}
        outcome = Uploader(clients, collection=collection, tell=tell).bring(files)
    for reason in (*outcome.reasons.values(), *outcome.warnings):
        raise InvalidInputError(f"Not all documents can be loaded: {reason}")


def _ask(passages: ChatPassages) -> Ask:
    def ask(query: Query, limit: int, collection: str) -> list[str]:
        message = Message("user", query.text)
        # The ranking of documents is measured, and not where it is cut.
        request = ChatRequest(
            (message,),
            use_rag=True,
            rag_top_k=limit,
            collections=(collection,),
            min_relevance=0.0,
            max_per_document=1,
        )
        return [each.document_id for each in passages.find(request, (message,), NOBODY_KNOWN).chunks]

    return ask


def _measure(
    engine: SearchEngine, query_set: QuerySet, chosen: tuple[str, ...], plan: Plan, ask: Ask | None, *, verbose: bool
) -> tuple[list[Run], list[Missed]]:
    known, available = engine.names, engine.available()
    for name in (*chosen, *plan.weights):
        if name not in known:
            raise UnknownOracleError(name, "oracle", known)
    for name in chosen:
        if name not in available:
            raise InvalidInputError(f"Oracle '{name}' has nothing to search here")
    names = [name for name in available if not chosen or name in chosen]
    runs_number = len(names) + (len(names) > 1) + (ask is not None)
    with documents_progress() as progress:
        task = progress.add_task("", total=len(query_set.queries) * runs_number)
        measured = Bench(
            engine,
            query_set.queries,
            plan,
            on_query=lambda name: progress.update(task, advance=1, description=name),
            ask=ask,
        )
        runs = measured.runs(names)
        return runs, measured.missed(runs[-1]) if verbose else []
