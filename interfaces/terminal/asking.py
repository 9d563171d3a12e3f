"""The options of commands that ask a service or a data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--url",
        metavar="URL",
        help="Ask the service there. Without it: the service of the data directory, else the one at "
        "http://$RAG_HOST:$RAG_PORT, else the directory itself.",
    ),
    click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Ask the service of this data directory, else the directory itself.  [default: $RAG_DATA_DIR]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."),
)
collection_option = click.option(
    "--collection",
    "collections",
    metavar="NAME",
    multiple=True,
    help="Collection to ask, by its name or as prefix*; may be repeated.  [default: all text collections]",
)
min_relevance_option = click.option(
    "--min-relevance",
    type=click.FloatRange(0, 1),
    help="Leave out what is less relevant, from 0 to 1.  [default: what suits the embedding model]",
)


def asking(command: FunctionT) -> FunctionT:
    """Give a command `url`, `data_dir` and `as_json`."""
    wrapped: Any = command
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return cast(FunctionT, wrapped)


def one_of_two(url: str | None, data_dir: Path | None) -> None:
    """Raise a usage error when both are given."""
    if url is not None and data_dir is not None:
        raise click.UsageError("Give --url or --data-dir, not both.")
