"""A collection to be re-embedded."""

import pytest

from tests.wrapper.stores.reembedded import Collection

BOTH = pytest.mark.parametrize("catalog", ["sqlite", "postgresql"], indirect=True)
"""The SQL of re-embedding is tried on both databases by its properties; what else is decided is the same on either."""


@pytest.fixture
def docs(catalog):
    return Collection(catalog)
