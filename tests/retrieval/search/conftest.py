"""Search engines on three small shelves."""

import pytest

from retrieval.search.engine import SearchEngine
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.persona import PersonaOracle
from retrieval.search.oracles.semantic import SemanticOracle
from tests.retrieval.search.told_oracles import BOOKS, NOTES, PAPERS


@pytest.fixture(scope="module")
def library(shelve):
    animals = ["zebra", "zorro", "lizard", "mouse", "horse", "otter", "beaver", "hamster"]
    shelve(
        BOOKS,
        {name: (f"{name} {name}", {"half": n % 2, "section": f"s{n // 4}"}) for n, name in enumerate(animals)}
        | {f"dog-{n}": (f"dog {n}", {"document_id": "dog", "half": 0}) for n in range(3)},
    )
    shelve(PAPERS, {"zebra": ("a paper on the zebra", {"section": "s0"})})
    shelve(NOTES, {"note": "zebras bite", "replaced": ("zebras are shy", {"superseded_by": "note"})})


@pytest.fixture
def make(library, choice_of, embeddings, reranking):
    made = []

    def make(*oracles, **settings):
        usual = (SemanticOracle(embeddings), LexicalOracle(), PersonaOracle(embeddings, NOTES))
        defaults = {
            "rrf_k": 60,
            "fetch_multiplier": 2,
            "fetch_min": 1,
            "limit_seconds": 20.0,
            "fusion": "rrf",
            "embed": usual[0].asked,
            "reranking": reranking,
            "min_relevance": 0.0,
        }
        choice = choice_of(BOOKS, "there-is-none", notes=NOTES)
        made.append(SearchEngine(oracles or usual, choice, **{**defaults, **settings}))
        return made[-1]

    yield make
    for each in made:
        each.close()
