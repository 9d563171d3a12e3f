"""Every embedding provider keeps the same promises."""

import pytest

from providers.contract_tests import EmbeddingTests
from providers.contract_tests.samples import nobody_there
from providers.embeddings.minilm import MiniLMProvider
from providers.embeddings.minilm_parts import locate_model
from providers.embeddings.ollama import OllamaProvider
from providers.embeddings.openai import OpenAIProvider
from registry.provider_discovery import BUILTINS

LOCAL = ("minilm", "minilm, int8")
SERVED = [builtin.id for builtin in BUILTINS if builtin.kind == "embedding" and builtin.id not in LOCAL]


@pytest.fixture(params=[*SERVED, *(pytest.param(name, marks=pytest.mark.slow) for name in LOCAL)])
def connection(request):
    """A connection of each kind, and of each local model; a new kind fails here until it has a builder."""
    build = {
        "minilm": lambda: request.getfixturevalue("minilm"),
        "minilm, int8": lambda: request.getfixturevalue("minilm_int8"),
        "openai": lambda: request.getfixturevalue("openai")(),
        "ollama": lambda: request.getfixturevalue("ollama")(),
    }
    assert build.keys() >= {request.param}, f"provider '{request.param}' needs a line here"
    return build[request.param]()


class TestEveryEmbeddingProvider(EmbeddingTests):
    @pytest.fixture
    def provider(self, connection):
        return connection

    @pytest.fixture
    def gone(self, connection, tmp_path):
        """A connection to a closed port, or a model in this process whose files have since been removed."""
        if isinstance(connection, MiniLMProvider):
            (tmp_path / "model").symlink_to(locate_model())
            with MiniLMProvider({"model": connection.model}, model_dir=tmp_path / "model") as gone:
                (tmp_path / "model").unlink()
                yield gone
            return
        config = {**connection.config, "url": nobody_there()}
        with type(connection)(config, sleep=lambda seconds: None) as gone:
            yield gone


def test_the_defaults_are_those_of_the_schema():
    with OpenAIProvider({}) as openai, OllamaProvider({"url": None}) as ollama, MiniLMProvider({}) as minilm:
        assert openai.model == "text-embedding-3-small"
        assert ollama.model == "nomic-embed-text"
        assert (minilm.model, minilm.dimension, minilm.max_input_tokens) == ("all-MiniLM-L6-v2", 384, 8384)
