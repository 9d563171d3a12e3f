"""`rag-wrapper serve`: gunicorn with the project's own configuration."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from schemas.access.credentials_in_text import without_credentials
from schemas.observing.log_formats import is_for_people

# What takes long to import is imported where it is used, so that help and usage errors are quick.


class Serving(click.Command):
    """A command whose errors are lines of the log from the first one on, where the log is not for people."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if is_for_people(os.environ.get("RAG_LOG_FORMAT", "").lower(), sys.stderr):
                raise
            # The library that writes the log takes three times as long to import as all the rest.
            line = {
                "timestamp": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "level": "error",
                "logger": __name__,
                "event": error.format_message(),
            }
            with suppress(OSError):  # a full disk does not change the exit code
                click.echo(without_credentials(json.dumps(line, separators=(",", ":"))), err=True)
            raise SystemExit(error.exit_code) from None


@click.command(cls=Serving)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with settings; the environment wins.",
)
def serve(config_file: Path | None) -> None:
    """Run the service until SIGTERM or Ctrl-C. Everything it starts ends with it.

    Settings, models, port and data directory are checked first. If anything is wrong, each fault is told in one
    sentence and nothing is started (exit code 1).
    """
    from wrapper.serving.before_imports import begin

    begin()
    from interfaces.commands.work.serving import serve

    serve(config_file)
