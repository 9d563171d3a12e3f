"""The contract of a reranking provider, as one class."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from providers.contract_tests.provider import ProviderTests
from providers.rerank.base import MAX_TEXTS, RerankProvider
from schemas.errors import InvalidInputError

QUERY = "how hot is lava"
TEXTS = ["The committee met on Tuesday.", "How hot is lava? About 1,000 degrees.", "Lava is hot.", "日本語の文章です"]


class RerankTests(ProviderTests):
    """Subclasses override the fixture `provider`: a connection to a service, or to one that speaks its protocol."""

    def test_it_is_a_reranking_connection(self, provider: Any) -> None:
        assert isinstance(provider, RerankProvider)
        assert provider.kind == "rerank"

    def test_each_text_has_a_finite_score(self, provider: Any) -> None:
        scores = provider.rerank(QUERY, TEXTS)
        assert len(scores) == len(TEXTS)
        assert all(isinstance(score, float) and math.isfinite(score) for score in scores)

    def test_the_text_that_answers_has_the_greatest_score(self, provider: Any) -> None:
        scores = provider.rerank(QUERY, TEXTS)
        assert scores.index(max(scores)) == 1

    def test_a_score_belongs_to_its_text_wherever_it_stands(self, provider: Any) -> None:
        assert provider.rerank(QUERY, TEXTS[::-1])[::-1] == pytest.approx(provider.rerank(QUERY, TEXTS))

    def test_more_texts_than_one_batch(self, provider: Any) -> None:
        scores = provider.rerank(QUERY, [*(f"sentence number {number}" for number in range(99)), TEXTS[1]])
        assert (len(scores), scores.index(max(scores))) == (100, 99)

    def test_no_texts_have_no_scores(self, provider: Any) -> None:
        assert provider.rerank(QUERY, []) == []

    @pytest.mark.parametrize("wrong", ["", "  \n\t", None, 7, "\ud83d"])
    def test_what_is_no_text_is_refused_with_its_place(self, provider: Any, wrong: Any) -> None:
        with pytest.raises(InvalidInputError) as caught:
            provider.rerank(QUERY, ["fine", wrong])
        assert caught.value.details == {"field": "texts", "index": 1}
        with pytest.raises(InvalidInputError) as caught:
            provider.rerank(wrong, TEXTS)
        assert caught.value.details == {"field": "query"}

    def test_one_string_is_not_a_list_of_letters(self, provider: Any) -> None:
        with pytest.raises(InvalidInputError, match="list of strings"):
            provider.rerank(QUERY, "hello")

    def test_too_many_texts_are_refused(self, provider: Any) -> None:
        with pytest.raises(InvalidInputError, match=str(MAX_TEXTS)):
            provider.rerank(QUERY, ["text"] * (MAX_TEXTS + 1))

    def test_a_trial_tells_the_model(self, provider: Any) -> None:
        assert provider.try_out()["model"] == provider.model

    def test_a_use_is_a_sign_of_life(self, provider: Any) -> None:
        provider.rerank(QUERY, TEXTS)
        assert provider.answered(60)["model"] == provider.model
        assert provider.answered(0) is None

    def test_threads_share_a_connection(self, provider: Any) -> None:
        expected = provider.rerank(QUERY, TEXTS)
        with ThreadPoolExecutor(4) as pool:
            for scores in pool.map(lambda _: provider.rerank(QUERY, TEXTS), range(8)):
                assert scores == pytest.approx(expected)
