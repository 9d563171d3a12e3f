"""Search engines on three small shelves."""

import pytest

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
def make(library, choice_of, embeddings, open_engine):
    def make(*oracles, **settings):
        usual = (SemanticOracle(embeddings), LexicalOracle(), PersonaOracle(embeddings, NOTES))
        choice = choice_of(BOOKS, "there-is-none", notes=NOTES)
        return open_engine(oracles or usual, choice, **{"min_relevance": 0.0, **settings})

    return make
