"""Options that several commands have, and how commands log and show what they do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interfaces.asked_service import asked_url

if TYPE_CHECKING:
    from schemas.settings import WrapperSettings

MAX_NAMED = 50
"""How many files that were passed over, and how many that failed, are named one by one."""

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


class QuestionCommand(click.Command):
    """A command whose argument, a question, may begin with a dash.

    What looks like an option, but is none and like none, is the question where there is no other.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            place = _place_of(error.option_name, given)
            if place is None or error.possibilities:
                raise
            others = [*given[:place], *given[place + 1 :]]
            if "--" in others:
                raise
            again = [*others, "--", given[place]]
            try:
                _, too_many, _ = self.make_parser(ctx).parse_args(list(again))
            except click.UsageError:
                raise error from None
            if too_many:
                raise
            return super().parse_args(ctx, again)
        except click.MissingParameter as error:
            if not given:
                raise
            hint = "A question that begins with a dash stands behind --"
            raise click.MissingParameter(hint, ctx, error.param) from None


def _place_of(option: str, args: Sequence[str]) -> int | None:
    """Return the place of the first argument that was read as this option."""
    for place, arg in enumerate(args):
        is_long = arg.startswith("--")
        if arg.partition("=")[0] == option or (not is_long and arg[:1] == "-" and option[1:] in arg[1:]):
            return place
    return None


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


def named_numbers(ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, float]:
    """Read an option that is given several times as NAME=NUMBER, each name once."""
    found: dict[str, float] = {}
    for each in given:
        name, _, number = map(str.strip, each.partition("="))
        if name in found:
            raise click.BadParameter(f"gives {name} twice", ctx, parameter)
        try:
            found[name] = int(number) if number.isdecimal() else float(number)
        except ValueError:
            raise click.BadParameter(f"'{each}' is not NAME=NUMBER", ctx, parameter) from None
        if not 0 <= found[name] <= sys.float_info.max:  # false of NaN, too
            raise click.BadParameter(f"'{each}' is not finite or negative", ctx, parameter)
    return found


def settings_of(data_dir: Path | None) -> WrapperSettings:
    """Return the settings of this process, of another data directory where one is given."""
    from schemas.settings import read_wrapper_settings

    settings = read_wrapper_settings()
    return settings if data_dir is None else replace(settings, data_dir=data_dir.resolve())


def log_to_stderr(level: int) -> None:
    """Log messages of at least `level` (of `logging`) to stderr; stdout is for the output of the command."""
    import structlog

    structlog.reset_defaults()  # the processors of a service's log suit its own loggers alone
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


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
