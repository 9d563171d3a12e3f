"""Which plan a vector query takes, how often the index is asked, and what happens when it cannot answer."""

import numpy as np
import pytest

from schemas.errors import DocumentNotFoundError, InvalidInputError, UnavailableError
from schemas.where import parse_where
from tests.wrapper.documents import NoIndex, add, batch, collection_of, create, delete, numbered, settle
from wrapper.catalog import writes
from wrapper.catalog.index_state import outbox, reports, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.engine.candidates import MAX_CANDIDATES
from wrapper.querying.asked_vectors import COLLECTIONS, KEPT, AskedVectors
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import MOST_ATTEMPTS, Planner
from wrapper.querying.waiting_writes import MAX_PENDING_IDS, PENDING_ENTRIES

COUNT = 400
QUERY = np.array([1.0, 0.0], dtype="<f4")
LARGE = writes.INDEXED_AT_ONCE + 100
"""So many documents are told to the index in two parts."""
INDEX_IS_CHEAP = CostModel(exact_per_document=1e9)


def _first(count):
    return [f"d{n}" for n in range(count)]


class RecordingIndex:
    """Proposes documents in a given order and records what it was asked for."""

    def __init__(self, ids):
        self.ids = ids
        self.ready = True
        self.failing = False
        self.asked = []

    def is_ready(self):
        return self.ready

    def nearest(self, engine_id, embedding, n_results):
        self.asked.append(n_results)
        if self.failing:
            raise UnavailableError("no answer")
        return self.ids[:n_results]


def _vectors(count):
    """Return vectors of which number n is the n-th nearest to the query."""
    angles = np.linspace(0, np.pi, count)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("<f4")


@pytest.fixture
def catalog(empty_catalog):
    """`docs`: 400 documents, `n` counting from 0, nearest first; indexed."""
    create(empty_catalog, "docs")
    metadatas = [{"n": n, "half": n % 2, "group": n // 10} for n in range(COUNT)]
    add(empty_catalog, "docs", _first(COUNT), metadatas=metadatas, vectors=_vectors(COUNT))
    empty_catalog.commit(_settle)
    return empty_catalog


def _settle(transaction):
    settle(transaction, "docs")


@pytest.fixture
def index():
    return RecordingIndex(_first(COUNT))


def _ask(catalog, index, where=None, *, costs=None, top_k=3, embedding=QUERY, **how):
    found = Planner(catalog, index, costs).query("docs", embedding, top_k=top_k, where=parse_where(where), **how)
    return found.plan, [match.document.id for match in found.matches]


@pytest.mark.parametrize(
    ("where", "costs", "plan", "ids", "compared"),
    [
        ({}, None, "index", _first(3), None),
        ({"group": 7}, None, "exact", ["d70", "d71", "d72"], 10),
        ({"half": 1}, INDEX_IS_CHEAP, "index+filter", ["d1", "d3", "d5"], None),
        ({"n": -1}, None, "empty", [], 0),
        ({"n": {"$in": []}}, None, "empty", [], 0),
    ],
    ids=["no filter", "few match", "many match", "nothing matches", "no value is wanted"],
)
def test_the_index_is_asked_once_where_computing_takes_longer_and_says_how_many_were_compared(
    catalog, index, where, costs, plan, ids, compared
):
    found = Planner(catalog, index, costs).query("docs", QUERY, top_k=3, where=parse_where(where))
    assert (found.plan, [match.document.id for match in found.matches]) == (plan, ids)
    assert len(index.asked) == plan.startswith("index")
    if index.asked:  # of the candidates those that match, at least as many as are wanted
        compared = index.asked[0] // 2 if where else index.asked[0]
        assert compared >= 3
    assert found.compared == compared


def _report(catalog, **columns):
    catalog.commit(lambda transaction: reports.write(transaction, find_collection(transaction, "docs").key, **columns))


def test_the_cheaper_plan_is_taken(catalog, index):
    costs = CostModel(exact_per_document=1.0, exact_per_component=0.0, index_base=0.0, index_per_candidate=1.0)
    # Computing costs 400 for 400 documents and 10 for 10; the index's 3 * 3 + 10 candidates cost 19, and 370.
    assert _ask(catalog, index, {"n": {"$gte": 0}}, costs=costs)[0] == "index+filter"
    assert _ask(catalog, index, {"group": 3}, costs=costs)[0] == "exact"


@pytest.mark.parametrize("where", [{}, {"half": 1}])
def test_what_is_computed_soon_is_not_left_to_an_index_that_may_miss_something(catalog, where):
    matching = COUNT // 2 if where else COUNT
    costs = CostModel(exact_per_document=1.0, exact_per_component=0.0, index_base=0.0, index_per_candidate=0.0)
    index = RecordingIndex(_first(COUNT)[100:])
    expected = ["d1", "d3", "d5"] if where else _first(3)

    def plan(exact_ms):
        planner = Planner(catalog, index, costs, exact_ms=exact_ms)
        found = planner.query("docs", QUERY, top_k=3, where=parse_where(where))
        assert (found.plan != "exact") or [match.document.id for match in found.matches] == expected
        return found.plan

    def measure(recall):
        _report(catalog, recall_at_10=recall)

    asked = "index+filter" if where else "index"
    # The index is unchecked, so ten times as much is computed.
    assert [plan(0), plan(matching / 10 - 1), plan(matching / 10)] == [asked, asked, "exact"]
    measure(0.98)
    assert [plan(0), plan(matching / 10 - 1), plan(matching / 10)] == ["exact", "exact", "exact"]
    measure(0.99)
    assert [plan(0), plan(matching - 1), plan(matching)] == [asked, asked, "exact"]


@pytest.mark.parametrize(("exact_ms", "plan"), [(0.0, "index"), (100.0, "memory")])
def test_what_codes_cannot_tell_apart_is_compared_where_that_is_soon_done(catalog, index, exact_ms, plan):
    """Reading the vectors of the fifty that are equal takes longer than asking the index."""
    add(catalog, "docs", _first(50), vectors=np.tile(QUERY, (50, 1)))
    catalog.commit(_settle)
    _report(catalog, recall_at_10=1.0)
    costs = CostModel(memory_base=-1_000, index_base=0.1, exact_per_document=1.0)
    planner = Planner(catalog, index, costs, HeldVectors(1_000_000), exact_ms)
    found = [planner.query("docs", QUERY, top_k=3) for _ in range(3)]
    assert {each.plan for each in found} == {plan}
    assert {tuple(match.document.id for match in each.matches) for each in found} == {("d0", "d1", "d2")}


@pytest.mark.parametrize(("first", "is_asked_again"), [(300, True), (14, True), (11, False)])
def test_the_index_is_asked_for_more_until_enough_of_the_nearest_match(catalog, index, first, is_asked_again):
    """What it proposed last it may have got wrong: at 14 the first answer has three that match, and they do not count."""
    assert _ask(catalog, index, {"n": {"$gte": first}}, costs=INDEX_IS_CHEAP)[1] == [f"d{first + n}" for n in range(3)]
    assert index.asked == sorted(set(index.asked))
    assert index.asked[-1] >= first + 3
    assert (len(index.asked) > 1) is is_asked_again


def test_asking_for_more_ends_where_computing_is_cheaper(catalog, index):
    costs = CostModel(exact_per_document=1.0, exact_per_component=0.0, index_base=0.0, index_per_candidate=1.0)
    # Exact costs 100, and 303 candidates would have to be asked for.
    assert _ask(catalog, index, {"n": {"$gte": 300}}, costs=costs) == ("exact", ["d300", "d301", "d302"])
    assert 3 <= max(index.asked) < 100


def test_an_index_that_has_too_little_to_propose_is_not_believed_unless_it_has_all_that_matches(catalog):
    index = RecordingIndex(["d5", "d9"])
    assert _ask(catalog, index) == ("scan", _first(3))
    assert _ask(catalog, index, {"n": {"$gte": 0}}, costs=INDEX_IS_CHEAP) == ("exact", _first(3))
    assert _ask(catalog, RecordingIndex(_first(COUNT - 1)), top_k=COUNT)[0] == "scan"
    assert _ask(catalog, RecordingIndex(_first(COUNT)), top_k=COUNT) == ("index", _first(COUNT))


@pytest.mark.parametrize("where", [{}, {"half": 1}])
@pytest.mark.parametrize("state", ["failing", "away", states.PENDING, states.REBUILDING])
def test_an_index_that_fails_is_replaced_by_a_scan_and_one_away_or_not_complete_is_not_asked(
    catalog, index, where, state
):
    index.failing, index.ready = state == "failing", state != "away"
    if state in (states.PENDING, states.REBUILDING):
        key = collection_of(catalog, "docs").key
        catalog.commit(lambda transaction: states.set_index_state(transaction, key, state))
    expected = ["d1", "d3", "d5"] if where else _first(3)
    assert _ask(catalog, index, where, costs=INDEX_IS_CHEAP) == ("scan", expected)
    assert len(index.asked) == (state == "failing")


def _write(catalog, ids, vectors):
    add(catalog, "docs", ids, metadatas=[{"half": 1} for _ in ids], vectors=vectors)


class Interrupted(RecordingIndex):
    """Answers what it knew when it was asked; during each query the next of `meanwhile` happens."""

    def __init__(self, ids, *meanwhile):
        super().__init__(ids)
        self.meanwhile = list(meanwhile)

    def nearest(self, engine_id, embedding, n_results):
        found = super().nearest(engine_id, embedding, n_results)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return found


def _revision_and_ids(catalog, index, where=None):
    answer = Planner(catalog, index, INDEX_IS_CHEAP).query("docs", QUERY, top_k=3, where=parse_where(where))
    with catalog.read() as transaction:
        assert answer.collection == find_collection(transaction, "docs")
    return answer.collection.revision, [match.document.id for match in answer.matches]


def test_writes_that_keep_passing_the_index_by_are_seen_by_scanning(catalog):
    def write(number):
        _write(catalog, [f"new{number}"], [[1.0, 1e-5 * number]])
        catalog.commit(_settle)

    index = Interrupted(_first(COUNT), *[lambda n=n: write(n) for n in range(MOST_ATTEMPTS)])
    assert _ask(catalog, index) == ("scan", ["d0", "new0", "new1"])
    assert len(index.asked) == MOST_ATTEMPTS


def test_a_change_of_the_collections_metadata_meanwhile_is_no_reason_to_ask_again(catalog, index):
    def describe():
        catalog.commit(
            lambda transaction: collection_writes.change_collection_metadata(transaction, "docs", lambda _: {"a": 1})
        )

    interrupted = Interrupted(index.ids, describe)
    assert _revision_and_ids(catalog, interrupted) == (3, _first(3))
    assert len(interrupted.asked) == 1


def test_a_collection_made_again_meanwhile_answers_for_itself(catalog):
    def make_anew():
        def operation(transaction):
            collection_writes.delete_collection(transaction, "docs")
            collection_writes.create_collection(transaction, "docs", {}, "cosine")
            writes.add_documents(transaction, "docs", batch(["d9", "z"], vectors=[[1, 0], [0, 1]]))

        catalog.commit(operation)

    index = Interrupted(_first(COUNT), make_anew)
    assert _ask(catalog, index) == ("scan", ["d9", "z"])


def _tell_the_index(catalog):
    """Let it have what waits longest."""
    catalog.commit(lambda transaction: outbox.remove(transaction, [outbox.oldest(transaction, limit=1)[0].id]))


@pytest.mark.parametrize("is_large", [True, False], ids=["a part of it", "before a large one that waits"])
def test_a_write_that_the_index_is_told_of_while_it_is_asked_is_in_the_answer(catalog, is_large):
    far = numbered(LARGE, "far")

    def meanwhile():
        ids = ["nearest", *far] if is_large else ["nearest"]
        _write(catalog, ids, [QUERY, *[-QUERY for _ in ids[1:]]])
        _tell_the_index(catalog)
        if not is_large:
            _write(catalog, far, [-QUERY for _ in far])
        index.ids = ["nearest", *index.ids]

    index = Interrupted(_first(COUNT), meanwhile)
    assert _ask(catalog, index, costs=INDEX_IS_CHEAP, top_k=2) == ("index", ["d0", "nearest"])
    assert len(index.asked) == 2


def _near_d0(catalog, meanwhile):
    found = Planner(catalog, Interrupted(_first(COUNT), meanwhile), INDEX_IS_CHEAP).query("docs", near=["d0"], top_k=2)
    return found.plan, [match.document.id for match in found.matches]


def test_documents_that_move_meanwhile_are_where_they_are_in_the_answer_and_near_nothing_when_they_are_gone(catalog):
    assert _near_d0(catalog, lambda: _write(catalog, ["d0"], [-QUERY])) == ("exact", ["d399", "d398"])
    catalog.commit(_settle)
    with pytest.raises(DocumentNotFoundError):
        _near_d0(catalog, lambda: delete(catalog, "docs", "d0"))


def _write_many_documents(catalog):
    _write(catalog, numbered(MAX_PENDING_IDS + 1, "new"), np.tile([[-1.0, 0.0]], (MAX_PENDING_IDS + 1, 1)))


def _write_many_times(catalog):
    for number in range(PENDING_ENTRIES):
        _write(catalog, ["one"], [[-1.0, number]])


@pytest.mark.parametrize("write", [_write_many_documents, _write_many_times])
def test_too_many_waiting_writes_are_scanned(catalog, index, write):
    write(catalog)
    assert _ask(catalog, index) == ("scan", _first(3))


def test_an_emptied_collection_is_empty_and_scanned_until_the_index_knows(catalog, index):
    catalog.commit(lambda transaction: collection_writes.empty_collection(transaction, "docs"))
    assert _ask(catalog, index, embedding=np.ones(7, dtype="<f4")) == ("empty", [])
    _write(catalog, ["new"], [[0.0, 1.0]])
    assert _ask(catalog, index) == ("scan", ["new"])


def test_the_index_is_never_asked_for_more_than_it_can_give(catalog, index):
    _ask(catalog, index, top_k=1000)
    _ask(catalog, index, {"half": 1}, top_k=1000, costs=INDEX_IS_CHEAP)
    assert max(index.asked) <= max(COUNT, 1000) < MAX_CANDIDATES


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_a_question_without_a_place_is_refused_whatever_would_answer_it(empty_catalog, metric):
    create(empty_catalog, "one", metric=metric)
    add(empty_catalog, "one", ["a"])
    for component in (np.nan, np.inf, -np.inf):
        with pytest.raises(InvalidInputError, match="element 1 is not") as raised:
            Planner(empty_catalog, NoIndex()).query("one", np.array([1.0, component], "<f4"), top_k=1)
        assert (raised.value.code, raised.value.details["field"]) == ("invalid_embedding", "query_embedding")


def _vector(*components):
    return np.array(components, dtype="<f4")


def _of(asked, key):
    return [each.tolist() for each in asked.of(key)]


def test_the_last_questions_are_kept_and_equal_ones_once():
    asked = AskedVectors()
    for number in range(KEPT + 2):
        asked.note(1, _vector(number, 1))
        asked.note(1, _vector(number, 1))
    for vector in (_vector(7), _vector(7, 7)):
        asked.note(2, vector)
    assert _of(asked, 1) == [[number, 1] for number in range(2, KEPT + 2)]
    assert _of(asked, 2) == [[7], [7, 7]], "one of another dimension is another question"
    assert _of(asked, 3) == []


def test_the_collections_that_were_asked_last_are_kept():
    asked = AskedVectors()
    for key in range(COLLECTIONS):
        asked.note(key, _vector(key))
    asked.note(0, _vector(100))
    asked.note(COLLECTIONS, _vector(0))
    assert _of(asked, 0) == [[0], [100]]
    assert _of(asked, 1) == []
    assert _of(asked, COLLECTIONS) == [[0]]
