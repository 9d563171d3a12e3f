"""The options of commands that talk to the running service, and how these log and show what they do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from interfaces.asked_service import asked_url

MAX_NAMED = 50
"""How many files that were passed over, and how many that failed, are named one by one."""

# What takes long to import is imported where it is used, so that help and usage errors are quick.

url_option = click.option(
    "--url",
    default=asked_url,
    metavar="URL",
    show_default="that of the data directory, else http://$RAG_HOST:$RAG_PORT, else http://127.0.0.1:5006",
    help="URL of the service.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
data_dir_option = click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), help="The data directory.  [default: $RAG_DATA_DIR]"
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


class JsonObject(click.ParamType):
    """A JSON object, read as bodies of requests are; none in it names anything twice."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        import orjson

        from schemas.errors import InvalidInputError
        from schemas.wire.json_in import check_named_once, decode

        try:
            found = decode(value)
            check_named_once(value)
            orjson.dumps(found)
        except ValueError as error:
            self.fail(f"is not JSON: {error}", param, ctx)
        except (TypeError, RecursionError) as error:  # numbers beyond 64 bits, or some 250 levels
            self.fail(f"cannot be sent as JSON: {error}", param, ctx)
        except InvalidInputError as error:
            self.fail(error.message, param, ctx)
        if not isinstance(found, dict):
            self.fail("must be a JSON object", param, ctx)
        return found


def _apply(_ctx: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    from schemas.settings import apply_config_file

    if file is not None:
        apply_config_file(file)


config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_apply,
    help="YAML file with settings; the environment wins.",
)
"""Puts the settings of a file into the environment before anything reads them."""


def log_to_stderr(level: int) -> None:
    """Log messages of at least `level` (of `logging`) to stderr; stdout is for the output of the command."""
    import structlog

    structlog.reset_defaults()  # the processors of a service's log suit its own loggers alone
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


per_document_option = click.option(
    "--max-per-document", type=click.IntRange(1, 100), help="The most passages of one document.  [default: 3]"
)
where_option = click.option("--where", type=JsonObject(), help="""Filter by metadata, for example '{"kind": "pdf"}'.""")


def print_json(value: Any) -> None:
    import orjson

    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def printable(line: str) -> str:
    """Return a line without what would make a terminal do something: names of files come from strangers."""
    return "".join(each if each.isprintable() else "\ufffd" for each in line)


def show_lines(lines: Sequence[str], most: int = MAX_NAMED) -> None:
    """Write the first lines to stderr, and how many there are besides."""
    for line in lines[:most]:
        click.echo(printable(line), err=True)
    if len(lines) > most:
        click.echo(f"… and {len(lines) - most} more", err=True)


@contextmanager
def progress_bar(named: str = "") -> Iterator[Callable[..., None]]:
    """Show a bar for a number of documents, on a terminal only, until the block ends. Give the function that changes
    its `completed`, `total` and `description`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield partial(progress.update, progress.add_task(named, total=None))
