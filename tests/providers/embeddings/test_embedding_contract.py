"""What every embedding connection promises, asked of every one."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from providers.embeddings.base import EmbeddingConnection
from providers.embeddings.minilm import MiniLMConnection
from providers.embeddings.ollama import OllamaConnection
from providers.embeddings.openai import OpenAIConnection
from registry.discovery import BUILTINS
from schemas.errors import InvalidInputError

TEXTS = [
    "how to rotate an API key",
    "x",
    "Die Straße nach Köln ist gesperrt",
    "日本語の文章です",
    "a\x00b\ttab\nline",
    "emoji 👩‍🚀 and a long tail " + "word " * 300,
]


EMBEDDINGS = [builtin.id for builtin in BUILTINS if builtin.kind == "embedding"]


@pytest.fixture(params=EMBEDDINGS)
def connection(request):
    """A new kind of connection fails here until it has a builder."""
    build = {
        "minilm": lambda: request.getfixturevalue("minilm"),
        "openai": lambda: request.getfixturevalue("openai")(),
        "ollama": lambda: request.getfixturevalue("ollama")(),
    }
    return build[request.param]()


def test_it_says_who_it_is(connection):
    assert isinstance(connection, EmbeddingConnection)
    assert connection.id in EMBEDDINGS
    assert connection.model


def test_one_row_per_text_in_float32_and_finite(connection):
    vectors = connection.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), connection.dimension)
    assert np.isfinite(vectors).all()


def test_a_row_belongs_to_its_text_whatever_the_company(connection):
    together = connection.embed(TEXTS)
    alone = np.concatenate([connection.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(connection.embed(TEXTS[::-1])[::-1], together, atol=1e-5)


def test_equal_texts_have_equal_vectors_and_different_ones_do_not(connection):
    first, second, other = connection.embed(["same words", "same words", "quite another thing"])
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert np.abs(first - other).max() > 0.01


def test_more_texts_than_one_batch(connection):
    texts = [f"document number {number}" for number in range(150)]
    vectors = connection.embed(texts)
    np.testing.assert_allclose(vectors[[0, 77, 149]], connection.embed([texts[0], texts[77], texts[149]]), atol=1e-5)


def test_no_texts_give_no_rows(connection):
    assert connection.embed([]).shape[0] == 0
    connection.embed(["now the dimension is known"])
    assert connection.embed(()).shape == (0, connection.dimension)


@pytest.mark.parametrize("blank", ["", "  \n\t"])
def test_a_blank_text_is_refused_with_its_place(connection, blank):
    with pytest.raises(InvalidInputError, match="blank") as caught:
        connection.embed(["fine", blank])
    assert caught.value.details == {"field": "texts", "index": 1}


@pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["nested"]])
def test_what_is_no_string_is_refused_with_its_place(connection, wrong):
    with pytest.raises(InvalidInputError, match="not a string") as caught:
        connection.embed([wrong])
    assert caught.value.details["index"] == 0


def test_half_a_surrogate_pair_is_refused_with_its_place(connection):
    with pytest.raises(InvalidInputError, match="Unicode") as caught:
        connection.embed(["fine", "fine", "\ud83d"])
    assert caught.value.details["index"] == 2


def test_one_string_is_not_a_list_of_letters(connection):
    with pytest.raises(InvalidInputError, match="list of strings"):
        connection.embed("hello")


def test_closing_twice_is_fine_and_embedding_opens_again(connection):
    before = connection.embed(["still here"])
    connection.close()
    connection.close()
    np.testing.assert_allclose(connection.embed(["still here"]), before, atol=1e-6)


def test_threads_share_a_connection(connection):
    texts = [f"text of thread {number}" for number in range(8)]
    expected = connection.embed(texts)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: connection.embed([text])[0], texts))
    np.testing.assert_allclose(np.stack(rows), expected, atol=1e-5)


def test_the_defaults_are_those_of_the_schema():
    with OpenAIConnection({}) as openai, OllamaConnection({"url": None}) as ollama, MiniLMConnection({}) as minilm:
        assert openai.model == "text-embedding-3-small"
        assert ollama.model == "nomic-embed-text"
        assert (minilm.model, minilm.dimension, minilm.max_input_tokens) == ("all-MiniLM-L6-v2", 384, 8384)


def test_what_is_given_is_used(server, openai):
    openai(url=f"{server.url}/v1/", model="m", api_key="k").embed(["hello"])
    [request] = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "m", "encoding_format": "base64", "input": ["hello"]}
    assert request.headers["Authorization"] == "Bearer k"
