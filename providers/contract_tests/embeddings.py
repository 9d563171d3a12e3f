"""The contract of an embedding provider, as one class."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from providers.contract_tests.provider import ProviderTests
from providers.embeddings.base import EmbeddingProvider
from schemas.errors import InvalidInputError

TEXTS = [
    "how to rotate an API key",
    "x",
    "Die Straße nach Köln ist gesperrt",
    "日本語の文章です",
    "a\x00b\ttab\nline",
    "emoji 👩‍🚀 and a long tail " + "word " * 300,
]


class EmbeddingTests(ProviderTests):
    """Subclasses override the fixture `provider`: a connection to a service, or to one that speaks its protocol."""

    def test_it_is_an_embedding_connection(self, provider: Any) -> None:
        assert isinstance(provider, EmbeddingProvider)
        assert provider.kind == "embedding"
        assert provider.model

    def test_one_row_per_text_in_float32_and_finite(self, provider: Any) -> None:
        vectors = provider.embed(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), provider.dimension)
        assert np.isfinite(vectors).all()

    def test_a_row_belongs_to_its_text_whatever_the_company(self, provider: Any) -> None:
        together = provider.embed(TEXTS)
        alone = np.concatenate([provider.embed([text]) for text in TEXTS])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        np.testing.assert_allclose(provider.embed(TEXTS[::-1])[::-1], together, atol=1e-5)

    def test_equal_texts_have_equal_vectors_and_different_ones_do_not(self, provider: Any) -> None:
        first, second, other = provider.embed(["same words", "same words", "quite another thing"])
        np.testing.assert_allclose(first, second, atol=1e-6)
        assert np.abs(first - other).max() > 0.01

    def test_more_texts_than_one_batch(self, provider: Any) -> None:
        texts = [f"document number {number}" for number in range(150)]
        vectors = provider.embed(texts)
        np.testing.assert_allclose(vectors[[0, 77, 149]], provider.embed([texts[0], texts[77], texts[149]]), atol=1e-5)

    def test_no_texts_give_no_rows(self, provider: Any) -> None:
        assert provider.embed([]).shape[0] == 0
        provider.embed(["now the dimension is known"])
        assert provider.embed(()).shape == (0, provider.dimension)

    @pytest.mark.parametrize("blank", ["", "  \n\t"])
    def test_a_blank_text_is_refused_with_its_place(self, provider: Any, blank: str) -> None:
        with pytest.raises(InvalidInputError, match="blank") as caught:
            provider.embed(["fine", blank])
        assert caught.value.details == {"field": "texts", "index": 1}

    @pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["nested"]])
    def test_what_is_no_string_is_refused_with_its_place(self, provider: Any, wrong: Any) -> None:
        with pytest.raises(InvalidInputError, match="not a string") as caught:
            provider.embed([wrong])
        assert caught.value.details["index"] == 0

    def test_half_a_surrogate_pair_is_refused_with_its_place(self, provider: Any) -> None:
        with pytest.raises(InvalidInputError, match="Unicode") as caught:
            provider.embed(["fine", "fine", "\ud83d"])
        assert caught.value.details["index"] == 2

    def test_one_string_is_not_a_list_of_letters(self, provider: Any) -> None:
        with pytest.raises(InvalidInputError, match="list of strings"):
            provider.embed("hello")

    def test_relevance_grows_with_the_cosine_from_0_to_1(self, provider: Any) -> None:
        cosines = np.linspace(-1.0, 1.0, 401).tolist()
        relevances = [provider.relevance(cosine) for cosine in cosines]
        assert all(isinstance(each, float) and 0.0 <= each <= 1.0 for each in relevances)
        assert relevances == sorted(relevances)
        assert provider.min_relevance is None or relevances[0] < provider.min_relevance < relevances[-1]

    def test_a_text_is_relevant_to_itself(self, provider: Any) -> None:
        first, again = provider.embed(["how to rotate an API key"] * 2)
        cosine = float(first @ again) / float(np.linalg.norm(first) * np.linalg.norm(again))
        assert provider.relevance(cosine) > 0.95

    def test_a_trial_tells_the_model_and_its_dimension(self, provider: Any) -> None:
        tried = provider.try_out()
        assert (tried["model"], tried["dimension"]) == (provider.model, provider.dimension)

    def test_its_models_have_names_of_their_own(self, provider: Any) -> None:
        names = [each.id for each in provider.models()]
        assert all(names)
        assert len(names) == len(set(names))

    def test_closing_twice_is_fine_and_embedding_opens_again(self, provider: Any) -> None:
        before = provider.embed(["still here"])
        provider.close()
        provider.close()
        np.testing.assert_allclose(provider.embed(["still here"]), before, atol=1e-6)

    def test_threads_share_a_connection(self, provider: Any) -> None:
        texts = [f"text of thread {number}" for number in range(8)]
        expected = provider.embed(texts)
        with ThreadPoolExecutor(8) as pool:
            rows = list(pool.map(lambda text: provider.embed([text])[0], texts))
        np.testing.assert_allclose(np.stack(rows), expected, atol=1e-5)
