"""`rag-wrapper serve`: gunicorn with the project's own configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

import wrapper
from providers.addresses import ConnectPolicy
from schemas.errors import ConfigurationError
from schemas.settings import (
    apply_config_file,
    read_declared_connections,
    read_registry_settings,
    read_retrieval_settings,
    read_wrapper_settings,
)

APP = "interfaces.compose:create_app()"


@click.command()
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with settings; the environment wins.",
)
def serve(config_file: Path | None) -> None:
    """Run the service until SIGTERM or Ctrl-C. Everything it starts ends with it."""
    try:
        if config_file is not None:
            apply_config_file(config_file)
        settings = read_wrapper_settings()
        ConnectPolicy.parse(read_registry_settings().connect_policy)
        read_retrieval_settings()
        if read_declared_connections():
            # Imported late: it takes as long as all the rest of this command.
            from interfaces.compose import check_declared_connections

            check_declared_connections()
    except ConfigurationError as error:
        raise click.ClickException(error.message) from None
    # Gunicorn puts the folder it runs in first on the search path: the caller's may have a `schemas` of its own.
    os.environ["RAG_DATA_DIR"] = str(settings.data_dir)
    os.environ["RAG_CATALOG_URL"] = settings.catalog_url
    os.chdir(Path(wrapper.__file__).resolve().parent.parent)
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "-c", "python:wrapper.gunicorn_config", APP])
