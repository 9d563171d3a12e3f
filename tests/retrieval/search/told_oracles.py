"""Oracles that say what a test tells them, and the shelves of the tests of the search engine."""

from retrieval.search.oracles.base import Oracle
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
