"""Filters: they mean the same at every provider, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from providers.base import SupportsEmbeddings, SupportsMetadataFiltering, SupportsSearch
from providers.contract_tests.abilities import can, needs
from providers.contract_tests.model import matches
from providers.contract_tests.samples import DIMENSION, batch, ids_of, where
from schemas.errors import UnsupportedError

PLAIN: tuple[dict[str, Any], ...] = (
    {"a": 1},
    {"a": 1.0},
    {"a": True},
    {"a": "1"},
    {"a": {"$ne": 1}},
    {"a": {"$in": [1, "1", 2.5]}},
    {"a": {"$nin": [1, 2.5, False]}},
    {"a": {"$gt": 1}},
    {"a": {"$gte": 1.5}},
    {"a": {"$lt": -0.5}},
    {"a": {"$lte": -1.5}},
    {"a": {"$gt": -1.5, "$lt": 2}},
    {"a": {"$contains": 1}},
    {"a": {"$contains": "x"}},
    {"a": {"$not_contains": 2.0}},
    {"a": 1, "b": "y"},
    {"$or": [{"a": 1}, {"b": "y"}]},
    {"$and": [{"a": {"$ne": 1}}, {"$or": [{"b": "y"}, {"a": 2}]}]},
    {"$not": {"$or": [{"a": 1}, {"b": "y"}]}},
    {"$not": {"a": {"$in": [1, "x"]}, "b": "y"}},
)
LADDER: tuple[Any, ...] = (
    *(1, 1.0, True, False, "1", "x", -1, -2, -1.5, -0.5, 0, 2, 1.5, 2.5),
    *([1], [1.0, 2.0], ["x", "1"], [True]),
)
"""Values of one field: next to each other in order, or alike but for their type."""


class FilterTests:
    unsupported_filters: tuple[dict[str, Any], ...]

    @needs(SupportsMetadataFiltering)
    def test_each_operator_meets_each_kind_of_value(self, provider: Any, made: Any) -> None:
        metadatas = [{"a": value, **({"b": "y"} if number % 3 == 0 else {})} for number, value in enumerate(LADDER)]
        ladder = [(f"d{number}", metadata) for number, metadata in enumerate([*metadatas, {}])]
        name = made(batch(*ladder))
        asked = [condition for condition in PLAIN if condition not in self.unsupported_filters]
        expected = {str(each): {name for name, metadata in ladder if matches(each, metadata)} for each in asked}
        found = {str(each): ids_of(provider.documents(name, where(each)).documents) for each in asked}
        assert found == expected

    @needs(SupportsMetadataFiltering, SupportsSearch)
    def test_a_search_takes_the_same_filters(self, provider: Any, made: Any) -> None:
        ladder = [(f"d{number}", {"a": value}) for number, value in enumerate(LADDER)]
        name = made(batch(*ladder))
        asked = [condition for condition in PLAIN if condition not in self.unsupported_filters]
        expected = {str(each): {name for name, metadata in ladder if matches(each, metadata)} for each in asked}
        found = {
            str(each): {
                match.document.id
                for match in provider.search(name, np.ones(DIMENSION, "f4"), top_k=100, where=where(each))
            }
            for each in asked
        }
        assert found == expected

    @needs(SupportsMetadataFiltering)
    def test_what_cannot_be_said_exactly_is_refused_before_anything_is_asked(self, provider: Any) -> None:
        for condition in self.unsupported_filters:
            for ask in _questions(provider, "no-such-collection"):
                with pytest.raises(UnsupportedError) as raised:
                    ask(condition)
                assert raised.value.details["operator"].startswith("$")
                assert raised.value.details["path"] in str(condition)


def _questions(provider: Any, name: str) -> list[Callable[[dict[str, Any]], Any]]:
    """Return every question that takes a filter."""
    questions: list[Callable[[dict[str, Any]], Any]] = [lambda condition: provider.documents(name, where(condition))]
    if can(provider, SupportsSearch):
        questions.append(lambda condition: provider.search(name, np.ones(DIMENSION, "f4"), where=where(condition)))
    if can(provider, SupportsEmbeddings):
        questions += [
            lambda condition: provider.delete_documents(name, where=where(condition)),
            lambda condition: provider.add_documents(name, batch(("a", {})), replace_where=where(condition)),
        ]
    return questions
