"""The work of `rag-wrapper bench`, and its result as JSON, as tables, and compared with an earlier one."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import orjson

from interfaces.asked_service import network_to, service_at, service_key
from interfaces.commands.options import log_to_stderr, print_json, progress_bar
from interfaces.commands.scratch_service import scratch_service
from interfaces.commands.work.uploading import Uploader
from interfaces.compose import way_out
from interfaces.given_connections import built_in_connections
from interfaces.layers import search_engine
from providers.base import ProviderContext
from registry.connections import Connections
from registry.embedding.cache import EmbeddingCache
from registry.embedding.queries import QueryEmbeddings
from registry.placeholders.resolving import SERVICE_KEYS, Placeholders
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import StoredConnections
from retrieval.bench.query_set import Query, QuerySet, read_query_set
from retrieval.bench.running import MEASURES, Ask, Bench, Missed, Run
from retrieval.chat.answering import ChatPassages
from retrieval.ingest.walk import walk
from retrieval.search.asking import UnknownOracleError
from retrieval.search.corpus import CollectionChoice, Corpus
from retrieval.search.engine import SearchEngine
from retrieval.search.reranking import Reranking
from schemas.access.owners import NOBODY_KNOWN
from schemas.connections import Connection
from schemas.contracts.chat import ChatRequest, Message
from schemas.errors import InvalidInputError
from schemas.settings import read_registry_settings, read_retrieval_settings
from schemas.ways import FUSIONS
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase

TITLES = dict(zip(MEASURES, ("Top 3", "MRR@10", "nDCG@10", "Recall@5", "Recall@10"), strict=True))
PERCENTILES = (50, 95, 99)
LEAST_CHANGE = 1e-9
SHOWN_QUERIES = 10
VARIED = ("fusion", "rrf_k", "fetch_multiplier", "fetch_min")
"""The settings of the search that options override."""

Json = dict[str, Any]


def bench(
    ctx: click.Context,
    directory: Path,
    url: str | None,
    collection: str,
    no_load: bool,
    oracles: tuple[str, ...],
    limit: int,
    weights: Mapping[str, float],
    with_ask: bool,
    verbose: bool,
    compare: Path | None,
    as_json: bool,
    **varied: Any,
) -> None:
    """Measure the search with the query set in `directory`. The options are those of the command."""
    log_to_stderr(logging.ERROR)
    if no_load and url is None:
        raise click.UsageError("--no-load needs --url: a new service has nothing yet.")
    earlier = None if compare is None else read_report(compare)
    query_set = read_query_set(directory)
    settings = replace(read_retrieval_settings(), **{name: each for name, each in varied.items() if each is not None})
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rag-wrapper-bench-")))
        service_url = url or stack.enter_context(scratch_service(scratch, **_embedding_variables())).url
        connections = stack.enter_context(_connections(scratch, service_url))
        if not no_load:
            _load(query_set, collection, service_url)
        # Nothing is kept: each query is measured with its embedding.
        embeddings = stack.enter_context(closing(QueryEmbeddings(connections, EmbeddingCache(ttl_seconds=0))))
        own, notes = settings.own_collections, settings.notes_collection
        choice = CollectionChoice(Corpus(connections), connections, own=own, notes=notes)
        reranking = stack.enter_context(closing(Reranking(connections)))
        engine = stack.enter_context(closing(search_engine(embeddings, choice, reranking, settings)))
        names = _oracles(engine, oracles, weights)
        ask = _ask(ChatPassages(engine, settings)) if with_ask else None
        show = stack.enter_context(progress_bar())
        show(total=len(query_set.queries) * (len(names) + (len(FUSIONS) if len(names) > 1 else 0) + with_ask))
        measured = Bench(
            *(engine, query_set.queries, collection, limit, settings.fusion, weights),
            on_query=lambda name: show(advance=1, description=name),
            ask=ask,
        )
        runs = measured.runs(names)
        missed = measured.missed(runs[-1]) if verbose else []
    report = {
        "query_set": query_set.name,
        "num_queries": len(query_set.queries),
        "settings": {**{name: getattr(settings, name) for name in VARIED}, "limit": limit, "weights": dict(weights)},
        "runs": [_run(each) for each in runs],
    }
    compared = [] if earlier is None else _comparisons(earlier, report)
    if as_json:
        print_json(report | ({"compared": compared} if compared else {}))
    else:
        _print_tables(report, compared)
    _print_missed(missed, err=as_json)
    failures = sum(run.failures for run in runs)
    if failures:
        click.echo(
            f"An oracle could not answer {failures} queries: the figures are of what the others found.", err=True
        )
    ctx.exit(1 if failures else 0)


def _embedding_variables() -> dict[str, Any]:
    """Return what has a service embed as the variables of this process say."""
    return {name.removeprefix("RAG_"): text for name, text in os.environ.items() if name.startswith("RAG_EMBEDDING_")}


@contextmanager
def _connections(scratch: Path, url: str) -> Iterator[Connections]:
    """Give the connections of a measurement: `local` is the measured service, and `default` is the embedding connection
    of the settings."""
    settings, network = read_registry_settings(), network_to(url)
    key = service_key(url, network)
    catalog = Catalog(SQLiteDatabase(scratch / "connections.sqlite"))
    catalog.open()
    made = Connections(
        discover(ProviderRegistry()),
        StoredConnections(catalog),
        Placeholders(os.environ, settings.env_patterns, settings.secret_dirs),
        ProviderContext(network=way_out(settings, tuple)),
        given=[
            Connection("local", "rag", "chromadb-wrapper", {"url": url} | ({"api_key": key} if key else {})),
            *(each for each in built_in_connections(settings) if each.kind == "embedding"),
        ],
        own_placeholders=Placeholders(os.environ, SERVICE_KEYS, (), own=frozenset()),
    )
    try:
        yield made
    finally:
        made.close()
        catalog.close()


def _load(query_set: QuerySet, collection: str, url: str) -> None:
    with progress_bar("loading") as show, service_at(url) as client:

        def tell(done: int, total: int, chunks: int) -> None:
            show(completed=done, total=total, description=f"loading, {chunks} documents")

        found = walk(query_set.corpus)
        files = {f"{found.folder}/{each.path_below}": each for each in found.files}
        outcome = Uploader(client, collection, tell=tell).bring(files)
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


def _oracles(engine: SearchEngine, chosen: Sequence[str], weights: Mapping[str, float]) -> list[str]:
    """Return the oracles to measure: the chosen ones, else all that have something to search."""
    known, available = engine.names, engine.available()
    for name in (*chosen, *weights):
        if name not in known:
            raise UnknownOracleError(name, "oracle", known)
    for name in chosen:
        if name not in available:
            raise InvalidInputError(f"Oracle '{name}' has nothing to search here")
    return [name for name in available if not chosen or name in chosen]


def _run(run: Run) -> Json:
    return {
        "name": run.name,
        "oracles": list(run.oracles),
        **asdict(run.quality),
        **{f"latency_{name}_ms": taken for name, taken in run.latencies_ms(*PERCENTILES).items()},
        "failures": run.failures,
        # With these a later run compares itself.
        "per_query": {each.query.id: {**asdict(each.quality), "latency_ms": each.latency_ms} for each in run.asked},
    }


def read_report(path: Path) -> Json:
    """Return the report that an earlier `--json` wrote. Raises InvalidInputError when the file holds none."""
    try:
        found: Json = orjson.loads(path.read_bytes())
        for run in found["runs"]:
            for values in run["per_query"].values():
                if not all(isinstance(values[measure], int | float) for measure in MEASURES):
                    raise TypeError
            run["name"].encode()
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise InvalidInputError(f"'{path}' is not what 'bench --json' printed") from None
    return found


def _comparisons(earlier: Json, now: Json) -> list[Json]:
    """Compare the runs that both reports have. Raises InvalidInputError when they share no run or no query."""
    before = {run["name"]: run["per_query"] for run in earlier["runs"]}
    both = [(run["name"], before[run["name"]], run["per_query"]) for run in now["runs"] if run["name"] in before]
    if found := [compared(*each) for each in both if each[1].keys() & each[2].keys()]:
        return found
    raise InvalidInputError("The earlier run has no run and no query in common with this one")


def compared(name: str, before: Mapping[str, Json], after: Mapping[str, Json]) -> Json:
    """Return the means of two runs over the queries of both, and which of these got `better` or `worse`, with the
    difference of their nDCG@10, the greatest first."""
    shared = [query for query in after if query in before]
    by_query = {query: after[query]["ndcg_at_10"] - before[query]["ndcg_at_10"] for query in shared}
    by_size = sorted(by_query.items(), key=lambda each: (-abs(each[1]), each[0]))
    means = {name: [fmean(of[query][name] for query in shared) for of in (before, after)] for name in MEASURES}
    return {
        "name": name,
        "queries": len(shared),
        "changes": [{"measure": measure, "before": b, "after": a} for measure, (b, a) in means.items()],
        "better": {query: difference for query, difference in by_size if difference > LEAST_CHANGE},
        "worse": {query: difference for query, difference in by_size if difference < -LEAST_CHANGE},
    }


def _print_tables(found: Json, comparisons: Sequence[Json]) -> None:
    latencies = [*(f"p{each}" for each in PERCENTILES), "mean"]
    rows = [
        [run["name"], *(f"{run[name]:.3f}" for name in MEASURES)]
        + [f"{run[f'latency_{name}_ms']:.1f}" for name in latencies]
        for run in found["runs"]
    ]
    click.echo(f"{found['query_set']}: {found['num_queries']} queries, times in ms")
    _print_table([["run", *TITLES.values(), *latencies], *rows])
    for each in comparisons:
        better, worse = each["better"], each["worse"]
        click.echo(f"\n{each['name']}: {len(better)} of {each['queries']} queries better, {len(worse)} worse")
        means = [(TITLES[change["measure"]], change["before"], change["after"]) for change in each["changes"]]
        rows = [[title, f"{before:.3f}", f"{now:.3f}", f"{now - before:+.3f}"] for title, before, now in means]
        _print_table([["measure", "before", "now", "change"], *rows])
        for word, queries in (("better", better), ("worse", worse)):
            first = ", ".join(f"{query} {by:+.3f}" for query, by in list(queries.items())[:SHOWN_QUERIES])
            more = f" and {len(queries) - SHOWN_QUERIES} more" if len(queries) > SHOWN_QUERIES else ""
            if first:
                click.echo(f"{word} by nDCG@10: {first}{more}")


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows, of which the first is the header: the first column to the left, the others, numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        click.echo("  ".join([first.ljust(widths[0]), *cells]))


def _print_missed(missed: Sequence[Missed], *, err: bool) -> None:
    """Print, for each query, the relevant documents that were not among its results, and why not."""
    for each in missed:
        query = each.asked.query
        click.echo(f"{query.id}: {query.text} (nDCG@10 {each.asked.quality.ndcg_at_10:.3f})", err=err)
        for explanation in each.explanations:
            verdicts = "; ".join(
                f"{name} {found.reason or ''}" if found.provenance is None else f"{name} rank {found.provenance.rank}"
                for name, found in explanation.oracles.items()
            )
            relevance = query.judgements[explanation.doc_id]
            click.echo(
                f"  missed {explanation.doc_id} (relevance {relevance}): {explanation.reason}; {verdicts}", err=err
            )
