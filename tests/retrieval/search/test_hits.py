"""The hits of a search: how many of a document, which neighbours are one, and that a single document gives all of its
passages."""

import pytest

from retrieval.search.hits import MAX_JOINED, hits_of
from schemas.contracts.search import FusedResult, SearchRequest
from schemas.where import parse_where
from tests.retrieval.search.conftest import BOOKS, Measured


def passage(document, place, score=0.5, **metadata):
    told = {"chunk_index": place, **metadata} if place is not None else metadata
    return FusedResult(document, "docs", f"{document}{place}", f"{document} {place}.", score, 0.0, (), {}, told)


def hits(*passages, limit=10, most=3, joins=True):
    return [each.chunk_ids or (each.chunk_id,) for each in hits_of(passages, limit, most, joins=joins)[0]]


def test_of_a_document_come_as_many_hits_as_asked_for_and_others_take_their_place():
    ranked = [passage("a", 2 * place) for place in range(5)] + [passage("b", 0), passage("c", None)]
    assert hits(*ranked, most=2) == [("a0",), ("a2",), ("b0",), ("cNone",)]
    assert hits(*ranked, limit=3, most=2) == [("a0",), ("a2",), ("b0",)]
    assert len(hits(*ranked, most=None)) == 7


def test_neighbours_are_one_hit_in_the_order_of_the_document_up_to_a_length():
    assert hits(passage("a", 4), passage("b", 5), passage("a", 3), passage("a", 9)) == [("a3", "a4"), ("b5",), ("a9",)]
    assert hits(passage("a", 1), passage("a", 3), passage("a", 2)) == [("a1", "a2", "a3")]
    assert hits(passage("a", 1), passage("a", 2), joins=False) == [("a1",), ("a2",)]
    assert [len(each) for each in hits(*(passage("a", place) for place in range(8)))] == [MAX_JOINED, MAX_JOINED, 2]
    assert hits(passage("a", None), passage("a", None)) == [("aNone",), ("aNone",)]


def test_sections_of_the_only_document_are_hits_of_their_own():
    sections = [passage("a", place, section=f"s{place // 2}") for place in range(4)]
    assert hits(*sections, most=None) == [("a0", "a1"), ("a2", "a3")]
    assert hits(*sections) == [("a0", "a1", "a2"), ("a3",)]


def test_a_joined_hit_shows_all_of_its_text_and_its_pages_and_stands_where_the_best_of_it_does():
    best = passage("a", 5, 0.9, page=3, section="Five")
    [hit] = hits_of(
        [best, passage("a", 4, page=2, start_line=7, section="Four"), passage("a", 6, page=4)], 10, 3, joins=True
    )[0]
    assert (hit.content, hit.chunk_id, hit.score) == ("a 4.\n\na 5.\n\na 6.", "a5", 0.9)
    assert hit.metadata == {"chunk_index": 5, "section": "Five", "start_line": 7, "page": 2, "last_page": 4}


class OfOneDocument(Measured):
    def query(self, question, limit):
        answer = super().query(question, limit)
        for each in answer.results:
            object.__setattr__(each, "doc_id", "manual")
        return answer


@pytest.mark.parametrize("fusion", ["rrf", "scores", "smoothed"])
def test_all_passages_come_where_a_single_document_was_found_by_what_all_oracles_think_of_each(make, fusion):
    one = OfOneDocument("semantic", **{f"c{n}": 0.9 - n / 100 for n in range(20)})
    other = OfOneDocument("lexical", c3=0.8, c7=0.5)
    answer = make(one, other).search(SearchRequest("anything", fusion=fusion, collections=(BOOKS,)))
    assert len(answer.results) == 10
    assert answer.results[0].chunk_id in ("c0", "c3")
    assert {"c3", "c7"} <= {each.chunk_id for each in answer.results}
    assert [each.provenance["semantic"].rank for each in answer.results if each.chunk_id in ("c3", "c7")] == [4, 8]


def test_what_is_not_relevant_is_not_given_behind_the_first_hundred_either_and_keeps_no_passage_from_being_a_hit(make):
    """A single document with hits gives all of them, though words found another one, which has nothing to do with it."""
    far = OfOneDocument("semantic", **{f"c{n}": 0.9 - n / 1000 for n in range(250)})
    assert len(make(far).search(SearchRequest("anything", limit=100, collections=(BOOKS,))).results) == 100
    vectors = make(min_relevance=0.99).search(SearchRequest("zebra horse mouse", limit=100, fusion="scores"))
    assert all(each.relevance is not None for each in vectors.results)
    answer = make().search(
        SearchRequest("dog", collections=(BOOKS,), where=parse_where({"half": 0}), min_relevance=0.9)
    )
    assert {each.doc_id for each in answer.results} == {"dog"}
    assert (len(answer.results), answer.receipt.max_per_document) == (3, None)
    capped = make().search(SearchRequest("dog", collections=(BOOKS,), min_relevance=0.9, max_per_document=1))
    assert ([each.doc_id for each in capped.results], capped.receipt.held_back) == (["dog"], 2)
    [said] = make().search(SearchRequest("dog", max_per_document=1, explain=("dog-2",))).explanations
    assert said.reason in ("among the results", "cut: rank 1, 1 hits of its document are among the results")
