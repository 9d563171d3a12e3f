"""Abilities: what a provider's class does not declare is refused, and nothing in between."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from providers.base import CAPABILITIES, Provider, SupportsMetadataFiltering, SupportsSearch, capabilities, required
from providers.contract_tests.samples import DIMENSION, batch, where
from schemas.errors import UnsupportedError


def needs(*abilities: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with providers that have these abilities; of the others, check instead that the ability is refused."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(self: Any, provider: Provider, **fixtures: Any) -> None:
            lacking = [ability for ability in abilities if not isinstance(provider, ability)]
            for ability in lacking:
                check_refused(provider, ability)
            if not lacking:
                test(self, provider, **fixtures)

        return run

    return decorate


def can(provider: Provider, ability: type) -> bool:
    return isinstance(provider, ability)


def check_refused(provider: Provider, ability: type) -> None:
    """Check that using the ability raises the error that names it, and that the provider's class has no part of it."""
    with pytest.raises(UnsupportedError) as raised:
        required(provider, ability)
    assert CAPABILITIES[raised.value.details["capability"]] is ability
    methods: frozenset[str] = getattr(ability, "__abstractmethods__", frozenset())
    unclaimed = sorted(name for name in methods if hasattr(provider, name))
    assert not unclaimed, f"{type(provider).__name__} has {', '.join(unclaimed)}: let it inherit {ability.__name__}"


class AbilityTests:
    """The tests that a provider's class declares exactly what the provider can do."""

    @pytest.mark.parametrize("capability", CAPABILITIES)
    def test_a_capability_is_declared_whole_or_refused(self, provider: Any, capability: str) -> None:
        ability = CAPABILITIES[capability]
        if capability in capabilities(type(provider)):
            assert required(provider, ability) is provider
            assert not getattr(type(provider), "__abstractmethods__", None)
        else:
            check_refused(provider, ability)

    @needs(SupportsSearch)
    def test_a_search_heeds_its_filter_or_refuses_it(self, provider: Any, made: Any) -> None:
        name, query = made(batch(("a", {"n": 1}), ("b", {"n": 2}))), np.ones(DIMENSION, "f4")
        if can(provider, SupportsMetadataFiltering):
            assert [each.document.id for each in provider.search(name, query, where=where({"n": 2}))] == ["b"]
            return
        with pytest.raises(UnsupportedError) as raised:
            provider.search(name, query, where=where({"n": 2}))
        assert raised.value.details["capability"] == "metadata_filtering"
