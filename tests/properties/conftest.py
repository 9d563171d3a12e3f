"""Catalogues for examples, each of which has a collection of its own."""

from contextlib import closing
from itertools import count

import pytest

pytest.register_assert_rewrite("tests.properties.consistency")

from tests.properties.catalogs import CatalogCollections, open_catalog, open_postgres_catalog  # noqa: E402


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def catalog(request, tmp_path_factory):
    if request.param == "sqlite":
        with closing(open_catalog(tmp_path_factory.mktemp("catalog") / "catalog.sqlite")) as catalog:
            yield catalog
        return
    with request.getfixturevalue("postgres").catalogue() as url, closing(open_postgres_catalog(url)) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def stored(catalog):
    """`stored(documents, metric)` creates a collection that holds them and returns its name."""
    return CatalogCollections(catalog, count())
