"""Catalogues to try things on, each example in a collection of its own, and how many examples are tried."""

from __future__ import annotations

import os
from itertools import count

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.properties.consistency")

from tests.properties.catalogs import CatalogCollections, open_catalog  # noqa: E402

# Which examples are tried is the same in every run, so that a failure is somebody's change and not somebody's luck;
# `HYPOTHESIS_PROFILE=search` looks further.
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
settings.register_profile("search", settings.get_profile("ci"), max_examples=3_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    catalog = open_catalog(tmp_path_factory.mktemp("catalog") / "catalog.sqlite")
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def stored(catalog):
    """`stored(documents, metric)`: the name of a new collection that holds them."""
    return CatalogCollections(catalog, count())
