"""Whether there is a catalogue, for those who make none: all commands but those that serve and make keys."""

from __future__ import annotations

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from wrapper.catalog_choice import CatalogAccess, catalog_access, check_access
from wrapper.start_checks import catalogue_path


def has_catalogue(settings: WrapperSettings) -> bool:
    """Return whether there is a catalogue, and the data directory, where the settings say. Nothing is made.

    Raises UnavailableError when its database does not answer.
    """
    if not settings.data_dir.is_dir():
        return False
    access = catalog_access(settings, makes=False)
    try:
        return access.copies.has_catalogue()
    except access.copies.errors as error:
        raise access.database.translated(error) from error
    finally:
        access.database.close()


def existing_catalogue(settings: WrapperSettings) -> CatalogAccess:
    """Return the access to the catalogue in the settings, for those who make none.

    Raises ConfigurationError when there is none, and UnavailableError when its database does not answer.
    """
    if has_catalogue(settings):
        return catalog_access(settings, makes=False)
    if catalogue_path(settings) is not None or not settings.data_dir.is_dir():
        raise ConfigurationError(f"RAG_DATA_DIR: there is no catalogue in {settings.data_dir}", field="RAG_DATA_DIR")
    check_access(settings)
    field = "RAG_CATALOG_SCHEMA" if settings.catalog_schema else "RAG_CATALOG_URL"
    where = f"the schema '{settings.catalog_schema}' of its database" if settings.catalog_schema else "this database"
    raise ConfigurationError(f"{field}: there is no catalogue in {where}", field=field)
