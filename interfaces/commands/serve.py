"""`rag-wrapper serve`: gunicorn with the project's own configuration."""

from __future__ import annotations

from pathlib import Path

import click

# What takes long to import is imported where it is used, so that help and usage errors are quick.


class Serving(click.Command):
    """A command whose errors are lines of the log from the first one on."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            import structlog

            from schemas.settings import read_log_settings
            from wrapper.observing import logs

            logs.configure(*read_log_settings())
            structlog.get_logger(__name__).error(error.format_message())
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
