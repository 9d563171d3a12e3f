"""Search engines on three small shelves."""

import pytest

from retrieval.search.oracles.base import Oracle
from retrieval.search.oracles.lexical import LexicalOracle
from retrieval.search.oracles.semantic import PersonaOracle, SemanticOracle
from schemas.contracts.search import OracleAnswer, OracleResult
from tests.support.live import PATIENCE_SECONDS

BOOKS, PAPERS, NOTES = "search-books", "search-papers", "search-notes"
QUERY = "zebra"


class Told(Oracle):
    """An oracle that returns given results or raises a given error; `gate` holds it up."""

    def __init__(self, name, *results, error=None, available=True, gate=None, left_out=None):
        self.name = self.measure = name
        self._results, self._error, self._available, self._gate = results, error, available, gate
        self._left_out = left_out or {}
        self.limits = []

    def is_available(self, corpus):
        return self._available

    def query(self, question, limit):
        self.limits.append(limit)
        if self._gate is not None:
            assert self._gate.wait(PATIENCE_SECONDS)
        if self._error is not None:
            raise self._error
        found = [OracleResult(each, BOOKS, each, each, 0.5, {}) for each in self._results[:limit]]
        return OracleAnswer(found, self._left_out)


class Measured(Told):
    """An oracle that found these, each (id, score), in the shelf of books."""

    def __init__(self, name, **found):
        super().__init__(name)
        self._found = found

    def query(self, question, limit):
        found = sorted(self._found.items(), key=lambda pair: -pair[1])
        return OracleAnswer([OracleResult(each, BOOKS, each, each, score, {}) for each, score in found])


def ids(answer):
    return [each.doc_id for each in answer.results]


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
