"""The mark of its catalogue in a data directory, so that no command takes another catalogue for it: one whose settings
lack the address of the catalogue, say, finds the file that an earlier start has left there."""

from __future__ import annotations

import os
from pathlib import Path

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from wrapper.catalog.catalog import Catalog
from wrapper.catalogue_presence import has_catalogue
from wrapper.engine.data_directory_lock import unusable
from wrapper.engine_choice import identity_of

MARK_FILE = "catalogue.id"


def mark(data_dir: Path, catalog: Catalog) -> None:
    """Note that the service of this directory works with this catalogue. Raises ConfigurationError when it cannot."""
    identity = identity_of(catalog)
    if marked(data_dir) == identity:
        return
    incomplete = data_dir / f"{MARK_FILE}.tmp"
    try:
        incomplete.write_text(identity)
        os.replace(incomplete, data_dir / MARK_FILE)
    except OSError as error:
        raise unusable(data_dir, error) from None


def check_mark(data_dir: Path, catalog: Catalog) -> None:
    """Raise ConfigurationError when the service of this directory works with another catalogue."""
    check_marked(data_dir, identity_of(catalog))


def check_marked(data_dir: Path, identity: str) -> None:
    """Raise ConfigurationError when the service of this directory works with another catalogue than that one."""
    if marked(data_dir) not in ("", identity):
        raise other_catalogue(data_dir)


def check_none_made(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when a catalogue would be made beside that of the directory's service."""
    if is_marked(settings.data_dir) and not has_catalogue(settings):
        raise other_catalogue(settings.data_dir)


def other_catalogue(data_dir: Path) -> ConfigurationError:
    return ConfigurationError(
        f"RAG_CATALOG_URL: this is not the catalogue with which the service of {data_dir} was last started. Give the "
        "same settings as to the service, or start it with these",
        field="RAG_CATALOG_URL",
    )


def is_marked(data_dir: Path) -> bool:
    """Return whether a service was ever started on this directory."""
    return bool(marked(data_dir))


def marked(data_dir: Path) -> str:
    """Return the identity of the catalogue with which the service of this directory was last started; empty: none."""
    try:
        return (data_dir / MARK_FILE).read_text(errors="replace").strip()
    except OSError:
        return ""
