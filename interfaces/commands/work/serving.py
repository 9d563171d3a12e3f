"""The work of `rag-wrapper serve`."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import structlog

import wrapper
from interfaces.start_checks import look_before_start
from schemas.errors import ConfigurationError
from schemas.settings import apply_config_file, read_log_settings
from wrapper.observing import logs
from wrapper.observing.captured_lines import capture

log = structlog.get_logger(__name__)

FILES = ("RAG_TLS_CERT", "RAG_TLS_KEY", "RAG_CA_FILE", "RAG_CHROMA_CA_FILE", "RAG_API_KEY_FILE", "RAG_BACKUP_KEY_FILE")
"""The variables that name files, which may be relative to where the command was called."""
APP = "interfaces.compose:create_app()"


def serve(config_file: Path | None) -> None:
    """Check everything, then be gunicorn's master until it ends. Exits with 1 when something is wrong."""
    logs.configure(*read_log_settings())
    if config_file is not None:
        try:
            apply_config_file(config_file)
        except ConfigurationError as error:
            _stop([" ".join(error.message.split())])
        logs.configure(*read_log_settings())
    capture()
    found = look_before_start()
    for sentence in found.warnings:
        log.warning(sentence)
    if found.settings is None or found.problems:
        _stop(found.problems)
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


def _stop(problems: Sequence[str]) -> NoReturn:
    for sentence in problems:
        log.error(sentence)
    raise SystemExit(1)
