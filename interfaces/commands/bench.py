"""`rag-wrapper bench`: measure how well and how fast the search finds what people judged relevant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interfaces.commands.options import json_option, named_numbers
from schemas.bounds import DEFAULT_RESULTS, MAX_RESULTS
from schemas.ways import FUSIONS


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--url", metavar="URL", help="Ask this running service instead of one made for the measurement.")
@click.option("--collection", default="bench", show_default=True, metavar="NAME", help="Collection for the documents.")
@click.option("--no-load", is_flag=True, help="Measure the collection as it is (with --url).")
@click.option(
    "--oracle", "oracles", multiple=True, metavar="NAME", help="Measure only this oracle; may be given several times."
)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_RESULTS),
    default=DEFAULT_RESULTS,
    show_default=True,
    help="Number of results.",
)
@click.option("--fusion", type=click.Choice(FUSIONS), help="Overrides RAG_FUSION: what the run 'fused' is.")
@click.option("--rrf-k", type=click.IntRange(1, 10_000), help="Overrides RAG_RRF_K.")
@click.option("--fetch-multiplier", type=click.IntRange(1, 100), help="Overrides RAG_FETCH_MULTIPLIER.")
@click.option("--fetch-min", type=click.IntRange(1, 1_000), help="Overrides RAG_FETCH_MIN.")
@click.option(
    "--weight",
    "weights",
    multiple=True,
    callback=named_numbers,
    metavar="NAME=W",
    help="Weight of an oracle when fused.",
)
@click.option("--ask", "with_ask", is_flag=True, help="Measure also the passages that `ask` gives the chat model.")
@click.option("--verbose", is_flag=True, help="Show what the last run missed for each query, and its rank.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with the --json of an earlier run.",
)
@json_option
@click.pass_context
def bench(ctx: click.Context, **given: Any) -> None:
    """Measure the search with DIRECTORY, a query set in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/test.tsv.

    The documents are loaded as by `load`, into a service that lives as long as the measurement, or into the one at
    --url. The queries are asked by the code that answers /api/search, of each oracle alone and of all of them, fused in
    each way. RAG_EMBEDDING_… and the settings of retrieval apply.

    Exit code: 0 if everything is measured, 1 if an oracle could not answer all queries, 2 if nothing could be measured.
    """
    from interfaces.commands.work.measuring import bench

    bench(ctx, **given)
