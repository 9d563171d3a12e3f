"""Generated filters mean the same at every provider."""

from __future__ import annotations

import uuid

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.contract_tests.model import ModelCollection
from providers.contract_tests.samples import where
from tests.properties.strategies import documents, to_batch

EXAMPLES, FILTERS_EACH = 30, 8


def test_generated_filters_select_what_the_model_selects(provider, backend):
    _, found = backend
    filters = st.lists(found.filters, min_size=1, max_size=FILTERS_EACH)

    @settings(max_examples=EXAMPLES)
    @given(documents(least=1, most=10, metadata=found.metadata), filters)
    def select(stored, conditions):
        name = f"test-{uuid.uuid4().hex[:16]}"
        provider.create_collection(name, {})
        try:
            provider.add_documents(name, to_batch(stored))
            model = ModelCollection(documents=stored)
            for condition in conditions:
                expected = {each.id for each in model.matching(condition)}
                page = provider.documents(name, where(condition), limit=100)
                assert {each.id for each in page.documents} == expected
                assert page.total == len(page.documents) == len(expected)
            near = provider.search(name, np.ones(4, "f4"), top_k=100, where=where(conditions[0]))
            assert {each.document.id for each in near} == {each.id for each in model.matching(conditions[0])}
        finally:
            provider.delete_collection(name)

    select()
