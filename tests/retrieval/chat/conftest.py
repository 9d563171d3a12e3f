"""The history of conversations."""

import pytest

from retrieval.chat.history import ChatHistory


@pytest.fixture
def catalog(catalogs):
    return catalogs()


@pytest.fixture
def history(catalog):
    return ChatHistory(catalog)
