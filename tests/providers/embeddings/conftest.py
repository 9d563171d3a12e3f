"""Connections to a stub of the embedding services, and to the real local model."""

from contextlib import ExitStack

import pytest

from tests.support.model_server import model_server


@pytest.fixture
def server():
    with model_server() as stub:
        yield stub


@pytest.fixture
def waits():
    """The seconds for which retries wanted to sleep."""
    return []


@pytest.fixture
def openai(server, waits):
    """`openai(**config)` builds connections to the stub that record their waits instead of sleeping, and closes them
    afterwards."""
    from providers.embeddings.openai import OpenAIProvider

    yield from _builder(OpenAIProvider, f"{server.url}/v1", waits)


@pytest.fixture
def ollama(server, waits):
    from providers.embeddings.ollama import OllamaProvider

    yield from _builder(OllamaProvider, server.url, waits)


def _builder(kind, url, waits):
    how = {"sleep": waits.append, "clock": lambda: 1_000_000_000.0, "monotonic": lambda: sum(waits)}
    with ExitStack() as opened:
        yield lambda *, retry=None, **config: opened.enter_context(kind({"url": url, **config}, retry=retry, **how))


@pytest.fixture(scope="session")
def minilm():
    """The real model; missing weights are an error here, not a skip, because the product ships with them."""
    from providers.embeddings.minilm import MiniLMProvider

    with MiniLMProvider({"threads": 2}) as connection:
        yield connection


@pytest.fixture(scope="session")
def minilm_int8():
    from providers.embeddings.minilm import MiniLMProvider

    with MiniLMProvider({"model": "all-MiniLM-L6-v2-int8", "threads": 2}) as connection:
        yield connection
