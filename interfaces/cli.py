"""The command line, `rag-wrapper`. A command's module is imported when the command is used, so that help is quick."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

COMMANDS = {  # name → (module:attribute, line in the list of commands)
    "serve": ("interfaces.commands.serve:serve", "Run the service."),
    "mcp": ("interfaces.commands.mcp:mcp", "Serve MCP on standard input and output."),
    "search": ("interfaces.commands.search_ask:search", "Show what fits a question best."),
    "ask": ("interfaces.commands.search_ask:ask", "Have the chat model answer a question, with its sources."),
    "collections": ("interfaces.commands.listings:collections", "List the collections."),
    "documents": ("interfaces.commands.listings:documents", "List the documents of text collections."),
    "status": ("interfaces.commands.listings:status", "Say how the service and its parts are."),
    "load": ("interfaces.commands.load:load", "Load files and folders into a collection."),
    "delete": ("interfaces.commands.load:delete", "Delete documents by their source."),
    "watch": ("interfaces.commands.watch:watch", "Keep folders in sync with a collection."),
    "export": ("interfaces.commands.export_import:export", "Write collections into a folder."),
    "audit": ("interfaces.commands.access.audit:audit", "Show who did what and when."),
    "check": ("interfaces.commands.indexes:check", "Check the indexes of collections."),
    "rebuild": ("interfaces.commands.indexes:rebuild", "Rebuild indexes from the catalogue."),
    "reembed": ("interfaces.commands.indexes:reembed", "Give a collection the vectors of another model."),
    "keys": ("interfaces.commands.access.keys:keys", "Manage API keys."),
    "secrets": (
        "interfaces.commands.access.stored_secrets:stored_secrets",
        "List stored secrets, or change their key.",
    ),
    "backup": ("interfaces.commands.backup:backup", "Back up the catalogue and all that belongs to it."),
    "restore": ("interfaces.commands.backup:restore", "Restore a backup."),
    "erase": ("interfaces.commands.access.erase:erase", "Erase documents, or what belongs to a user, with a receipt."),
    "bench": ("interfaces.commands.bench:bench", "Measure how well the search finds what is relevant."),
    "validate": ("interfaces.commands.validate:validate", "Check that a service finds what it should."),
    "import": ("interfaces.commands.export_import:import_", "Import the collections of an export into a service."),
}


PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval")
"""The project's other packages, whose names are those of many people's own folders."""
# As a shell tells of a process that the signal ended.
INTERRUPTED, PIPE_CLOSED = 128 + signal.SIGINT, 128 + signal.SIGPIPE
WHERE_KEYS_ARE = "Commands take the key from RAG_API_KEY or RAG_API_KEY_FILE"


class Refused(click.ClickException):
    """A refusal, shown as one sentence on stderr, with the exit code of a usage error: nothing was done."""

    exit_code = 2


def _hidden() -> list[str]:
    """Return a sentence for each package that another of the same name hides, with the file that does. Imports nothing
    of them."""
    sentences = []
    for name in PACKAGES:
        spec = find_spec(name)
        # A folder without an __init__.py, which has no origin, hides nothing.
        if spec is None or spec.origin is None:
            continue
        found = Path(spec.origin).resolve()
        if found.parent != Path(__file__).resolve().parents[1] / name:
            folder = found.parent.parent if spec.submodule_search_locations else found.parent
            sentences.append(
                f"{found} hides the package '{name}' of rag-wrapper: "
                f"take {folder} off PYTHONPATH, or give that package another name"
            )
    return sentences


class TextContext(click.Context):
    """Refuses a value that is not UTF-8, in which all texts are sent; a path may be of any bytes."""

    def invoke(self, *called: Any, **given: Any) -> Any:
        for each in self.command.params:
            try:
                json.dumps(self.params.get(each.name or ""), ensure_ascii=False, default=lambda _: None).encode()
            except UnicodeEncodeError:
                raise click.BadParameter("the text is not valid UTF-8", self, each) from None
        return super().invoke(*called, **given)


def _checks_what_is_given(command: click.Command) -> None:
    command.context_class = TextContext
    command.make_parser = partial(_strict_parser, command)  # type: ignore[method-assign]
    for each in getattr(command, "commands", {}).values():
        _checks_what_is_given(each)


def _strict_parser(command: click.Command, ctx: click.Context) -> Any:
    """Return the command's parser, which refuses an option that is given twice and is no list: click takes the last."""
    parser: Any = type(command).make_parser(command, ctx)
    parser.parse_args = partial(_named_once, ctx, parser.parse_args)
    return parser


def _named_once(ctx: click.Context, parse: Callable[..., Any], args: list[str]) -> Any:
    options, rest, order = parse(args)
    given = [each for each in order if isinstance(each, click.Option) and not (each.multiple or each.is_flag)]
    for each in set(given):
        if given.count(each) > 1 and not ctx.resilient_parsing:
            raise click.BadParameter("is given twice", ctx, each)
    return options, rest, order


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        _checks_what_is_given(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        if sentences := _hidden():
            raise Refused("; ".join(sentences))
        from interfaces.commands.options import printable
        from schemas.errors import RagError

        try:
            return super().invoke(ctx)
        except RagError as error:
            # Commands are asked by people who cannot send headers.
            where = f". {WHERE_KEYS_ARE}" if error.code == "key_missing" else ""
            # Messages may quote files and services that strangers have made.
            shown = "\n".join(map(printable, error.message.splitlines()))
            raise Refused(f"{shown}{where}") from error
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # What is left to be written goes nowhere, or its failure would be told when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(PIPE_CLOSED)
        except OSError as error:
            if not error.strerror:  # a library's own, which nobody foresaw
                raise
            named = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            raise Refused(printable(f"{named}{error.strerror}")) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rag-wrapper", prog_name="rag-wrapper")
def main() -> None:
    """A self-hosted RAG backend: documents with embeddings, metadata queries and vector queries."""
