"""The promises of a provider as tests: subclass the class of its kind and give it the fixture `provider`.

`docs/providers.md` shows a provider with its tests. This package is the only one of the product that imports pytest.
"""

from __future__ import annotations

from pkgutil import iter_modules

try:
    import pytest
except ImportError:
    raise ImportError("The contract tests need pytest: pip install 'rag-wrapper[contract-tests]'") from None

# Pytest rewrites the asserts of a module, so that a failure shows the values, only when this precedes its import.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))

from providers.contract_tests.chat import ChatTests  # noqa: E402
from providers.contract_tests.embeddings import EmbeddingTests  # noqa: E402
from providers.contract_tests.failures import FailureTests  # noqa: E402
from providers.contract_tests.rag import RagProviderTests  # noqa: E402
from providers.contract_tests.rerank import RerankTests  # noqa: E402

__all__ = ["ChatTests", "EmbeddingTests", "FailureTests", "RagProviderTests", "RerankTests"]
