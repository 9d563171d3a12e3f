"""The result of a measurement of the search as JSON, as tables, as a drawing, and compared with an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from retrieval.bench.comparing import CONFIDENCE, Comparison, compare
from retrieval.bench.quality import MEASURES
from retrieval.bench.query_set import QuerySet
from retrieval.bench.running import Missed, Run
from schemas.contracts.search import OracleVerdict
from schemas.errors import ConfigurationError, InvalidInputError
from schemas.settings import RetrievalSettings

Report = dict[str, Any]

TITLES = {
    "success_at_3": "Top 3",
    "mrr": "MRR@10",
    "ndcg_at_10": "nDCG@10",
    "recall_at_5": "Recall@5",
    "recall_at_10": "Recall@10",
}
LATENCIES = {
    "latency_p50_ms": "p50",
    "latency_p95_ms": "p95",
    "latency_p99_ms": "p99",
    "latency_mean_ms": "mean",
}
SHOWN_QUERIES = 10


def report(
    query_set: QuerySet, runs: Sequence[Run], settings: RetrievalSettings, limit: int, weights: Mapping[str, float]
) -> Report:
    """Return the object of `--json`. A later run compares itself with its `per_query`."""
    return {
        "query_set": query_set.name,
        "num_queries": len(query_set.queries),
        "settings": {
            "fusion": settings.fusion,
            "rrf_k": settings.rrf_k,
            "fetch_multiplier": settings.fetch_multiplier,
            "fetch_min": settings.fetch_min,
            "limit": limit,
            "weights": dict(weights),
        },
        "runs": [
            {
                "name": run.name,
                "oracles": list(run.oracles),
                **asdict(run.quality),
                "latency_p50_ms": run.latency_ms(50),
                "latency_p95_ms": run.latency_ms(95),
                "latency_p99_ms": run.latency_ms(99),
                "latency_mean_ms": run.mean_latency_ms,
                "failures": run.failures,
                "per_query": {
                    each.query.id: {**asdict(each.quality), "latency_ms": each.latency_ms} for each in run.asked
                },
            }
            for run in runs
        ],
    }


def read_report(path: Path) -> Report:
    """Return the report that an earlier `--json` wrote. Raises InvalidInputError when the file holds none."""
    try:
        found: Report = orjson.loads(path.read_bytes())
        for run in found["runs"]:
            for values in run["per_query"].values():
                if not all(isinstance(values[measure], int | float) for measure in MEASURES):
                    raise TypeError
            run["name"].encode()
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise InvalidInputError(f"'{path}' is not what 'bench --json' printed") from None
    return found


def comparisons(earlier: Report, now: Report) -> list[Comparison]:
    """Compare the runs that both reports have. Raises InvalidInputError when they share no run or no query."""
    before = {run["name"]: run["per_query"] for run in earlier["runs"]}
    found = [
        compared
        for run in now["runs"]
        if run["name"] in before
        if (compared := compare(run["name"], before[run["name"]], run["per_query"], MEASURES)) is not None
    ]
    if not found:
        raise InvalidInputError("The earlier run has no run and no query in common with this one")
    return found


def print_json(found: Report, compared: Sequence[Comparison]) -> None:
    whole = found | ({"compared": [asdict(each) for each in compared]} if compared else {})
    click.echo(orjson.dumps(whole, option=orjson.OPT_INDENT_2))


def print_tables(found: Report, compared: Sequence[Comparison]) -> None:
    console = Console()
    title = f"{found['query_set']}: {found['num_queries']} queries, times in ms"
    table = Table(title=title, box=SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("run")
    for title in (*TITLES.values(), *LATENCIES.values()):
        table.add_column(title, justify="right")
    for run in found["runs"]:
        figures = [f"{run[name]:.3f}" for name in TITLES] + [f"{run[name]:.1f}" for name in LATENCIES]
        table.add_row(run["name"], *figures)
    console.print(table)
    for each in compared:
        _print_comparison(console, each)


def _print_comparison(console: Console, compared: Comparison) -> None:
    title = f"{compared.name}: {len(compared.better)} of {compared.queries} queries better, {len(compared.worse)} worse"
    table = Table(title=title)
    table.add_column("measure")
    for heading in ("before", "now", "change", f"{CONFIDENCE:.0%} interval"):
        table.add_column(heading, justify="right")
    for change in compared.changes:
        table.add_row(
            TITLES[change.measure],
            f"{change.before:.3f}",
            f"{change.after:.3f}",
            f"{change.after - change.before:+.3f}",
            f"{change.low:+.3f} … {change.high:+.3f}",
        )
    console.print(table)
    for word, queries in (("better", compared.better), ("worse", compared.worse)):
        first = ", ".join(f"{query} {by:+.3f}" for query, by in list(queries.items())[:SHOWN_QUERIES])
        more = f" and {len(queries) - SHOWN_QUERIES} more" if len(queries) > SHOWN_QUERIES else ""
        if first:
            console.print(f"{word} by nDCG@10: {first}{more}", highlight=False, markup=False)


def print_missed(missed: Sequence[Missed], *, err: bool) -> None:
    """Print, for each query, the relevant documents that were not among its results, and why not."""
    for each in missed:
        query = each.asked.query
        click.echo(f"{query.id}: {query.text} (nDCG@10 {each.asked.quality.ndcg_at_10:.3f})", err=err)
        for explanation in each.explanations:
            verdicts = "; ".join(f"{name} {_said(verdict)}" for name, verdict in explanation.oracles.items())
            relevance = query.judgements[explanation.doc_id]
            click.echo(
                f"  missed {explanation.doc_id} (relevance {relevance}): {explanation.reason}; {verdicts}", err=err
            )


def _said(verdict: OracleVerdict) -> str:
    if verdict.provenance is None:
        return verdict.reason or ""
    return f"rank {verdict.provenance.rank}"


def check_plotting() -> None:
    """Raise ConfigurationError when the plotting library is not installed."""
    if find_spec("matplotlib") is None:
        raise ConfigurationError("--plot needs matplotlib: pip install 'rag-wrapper[plot]'")


def plot(found: Report, path: Path) -> None:
    """Draw the measures of each run side by side, in the format of the file's name. Raises InvalidInputError when the
    file cannot be written."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, chart = pyplot.subplots(figsize=(8, 4), layout="constrained")
    runs = found["runs"]
    width = 0.8 / len(runs)
    for number, run in enumerate(runs):
        places = [place + number * width for place in range(len(TITLES))]
        chart.bar(places, [run[name] for name in TITLES], width, label=run["name"])
    chart.set_xticks([place + 0.4 - width / 2 for place in range(len(TITLES))], list(TITLES.values()))
    chart.set_ylim(0, 1)
    chart.set_title(f"{found['query_set']}, {found['num_queries']} queries")
    chart.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"'{path}' cannot be drawn: {error}") from error
    finally:
        pyplot.close(figure)
