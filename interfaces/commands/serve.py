"""`rag-wrapper serve`: gunicorn with the project's own configuration."""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from schemas.access.credentials_in_text import without_credentials
from schemas.observing.log_formats import is_for_people

FILES = ("RAG_TLS_CERT", "RAG_TLS_KEY", "RAG_CA_FILE", "RAG_CHROMA_CA_FILE", "RAG_API_KEY_FILE", "RAG_BACKUP_KEY_FILE")
"""The variables that name files, which may be relative to where the command was called."""
APP = "interfaces.compose:create_app()"


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
    import structlog

    import wrapper
    from interfaces.start_checks import look_before_start
    from schemas.errors import ConfigurationError
    from schemas.settings import apply_config_file, read_log_settings
    from wrapper.observing import logs
    from wrapper.observing.captured_lines import capture

    log = structlog.get_logger(__name__)

    def stop(problems: Sequence[str]) -> NoReturn:
        for sentence in problems:
            log.error(sentence)
        raise SystemExit(1)

    logs.configure(*read_log_settings())
    if config_file is not None:
        try:
            apply_config_file(config_file)
        except ConfigurationError as error:
            stop([" ".join(error.message.split())])
        logs.configure(*read_log_settings())
    capture()
    found = look_before_start()
    for sentence in found.warnings:
        log.warning(sentence)
    if found.settings is None or found.problems:
        stop(found.problems)
    settings = found.settings
    # Gunicorn puts the folder it runs in first on the search path: the caller's may have a `schemas` of its own.
    os.environ["RAG_DATA_DIR"] = str(settings.data_dir)
    # What nobody has set stays so, and is told to be a default.
    if settings.catalog_url:
        os.environ["RAG_CATALOG_URL"] = settings.catalog_url
    if settings.backup_dir is not None:
        os.environ["RAG_BACKUP_DIR"] = str(settings.backup_dir)
    for variable in FILES:
        if os.environ.get(variable):
            os.environ[variable] = str(Path(os.environ[variable]).absolute())
    os.chdir(Path(wrapper.__file__).resolve().parent.parent)
    # As `python -m gunicorn` does, but in this process: a new one would import again what the checks have imported.
    sys.argv[1:] = ["-c", "python:wrapper.serving.gunicorn_config", APP]
    runpy.run_module("gunicorn", run_name="__main__", alter_sys=True)
