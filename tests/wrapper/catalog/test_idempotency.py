"""What came of a write is kept for its repeats, for a day."""

import orjson
import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.errors import ConflictError
from schemas.records import Extras
from schemas.storage.erasure import Target
from schemas.storage.outcomes import CollectionOutcome, EarlierAnswer, ImportOutcome, StreamOutcome, WriteOutcome
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.documents import add, create
from wrapper.access.stored_keys import _key
from wrapper.catalog import idempotency
from wrapper.catalog.idempotency import KEPT_SECONDS, Kept
from wrapper.catalog.rows import named, to_extras

NOW = 1_800_000_000.0
ADDED = WriteOutcome(3, 7, ids=["a", "b"], created=1, updated=1)
KEPT = Kept(ADDED, 7, "1.3")
OUTCOMES = {
    "documents": ADDED,
    "collection": CollectionOutcome(1, 8, id="u", name="n", metadata={"x": None, "y": [1.5]}, metric="l2"),
    "stream": StreamOutcome(2, None, ids=["a"], errors=[{"line": 2, "code": "c"}], errors_total=4, warnings=["w"]),
    "import": ImportOutcome(2, 9, unchanged=5, sha256="00", verified=True, warnings=[]),
    "json": {"status": "created", "documentId": "a", "nested": {"x": None}},
    "no change": {},
}


def _keep(catalog, key, *, now=NOW, kept=KEPT, digest="one", collection_key=1):
    catalog.commit(lambda transaction: idempotency.keep(transaction, key, digest, kept, now, collection_key))


def _find(catalog, key, digest="one", kind=WriteOutcome):
    with catalog.read() as transaction:
        return idempotency.find(transaction, key, digest, kind)


def test_the_first_outcome_is_found_again_under_its_key_and_for_its_request_alone(catalog):
    for kind, outcome in OUTCOMES.items():
        kept = Kept(outcome, 7, "1.2") if outcome else Kept(outcome, None, None)
        _keep(catalog, kind, kept=kept)
        found = _find(catalog, kind, kind=type(outcome))
        assert found == kept
        assert type(found.outcome) is type(outcome), kind
    assert _find(catalog, "STREAM") is None
    with pytest.raises(ConflictError) as refused:
        _find(catalog, "stream", digest="two")
    assert refused.value.code == "idempotency_key_reused"


@SQLITE
def test_rows_hold_the_fields_by_name(catalog):
    """The next release reads them: a change here takes a step in `wrapper/catalog/migrations.py`."""
    _keep(catalog, "key")
    with catalog.read() as transaction:
        held = orjson.loads(transaction.value("SELECT outcome FROM idempotency_keys"))
    fields = {"revision": 3, "outbox_id": 7, "ids": ["a", "b"]}
    fields |= {"created": 1, "updated": 1, "unchanged": 0, "deleted": 0}
    assert held == {"outcome": fields, "version": "1.3"}


def test_an_outcome_of_another_release_is_read_by_the_fields_that_are_known_or_the_write_is_done_again(catalog):
    _keep(catalog, "key", kept=Kept({"revision": 3, "outbox_id": 7, "later": [1]}, 7, "1.3"))
    assert _find(catalog, "key") == Kept(WriteOutcome(3, 7), 7, "1.3")
    _keep(catalog, "key", kept=Kept({"renamed": 3}, 7, "1.3"))
    assert _find(catalog, "key") is None
    _keep(catalog, "key")
    assert _find(catalog, "key") == KEPT


def test_other_records_are_read_without_the_fields_of_later_releases():
    assert to_extras('{"uri": "u", "later": 1}') == Extras("u")
    key = _key("i", "n", "later,read", None, None, '{"concurrent": 1, "later": 1}', "o", 0, None, None, None)
    assert key.grant == Grant(frozenset({Scope.READ}), limits=Limits(concurrent=1))


def test_outcomes_are_forgotten_after_a_day(catalog):
    _keep(catalog, "old")
    _keep(catalog, "young", now=NOW + 10)
    _keep(catalog, "new", now=NOW + KEPT_SECONDS + 5)
    assert _find(catalog, "old") is None
    assert _find(catalog, "young") == _find(catalog, "new") == KEPT


def test_an_outcome_is_kept_with_its_write_or_not_at_all(catalog):
    def write(transaction):
        idempotency.keep(transaction, "key", "one", KEPT, NOW, 1)
        raise ConflictError("the write itself is refused")

    with pytest.raises(ConflictError):
        catalog.commit(write)
    assert _find(catalog, "key") is None


def test_a_deleted_collection_takes_its_outcomes_along(catalog):
    for key, collection_key in (("mine", 1), ("another's", 2), ("nobody's", None)):
        _keep(catalog, key, collection_key=collection_key)
    catalog.commit(lambda transaction: idempotency.forget(transaction, 1))
    assert _find(catalog, "mine") is None
    assert _find(catalog, "another's") == _find(catalog, "nobody's") == KEPT


ERASED = Target(
    "docs", "u", ids=frozenset({"a"}), document_ids=frozenset({"d", "queued"}), sources=frozenset({"in/plan.md"})
)


def _leave_out(catalog, target=ERASED, collection_key=1):
    """Leave out what is erased from a collection that has the document `b` still."""
    with catalog.read() as transaction:
        is_there = named(transaction, "docs") is not None
    if not is_there:
        create(catalog, "docs")
        add(catalog, "docs", ["b"])
    return catalog.commit(lambda transaction: idempotency.leave_out(transaction, target, collection_key))


OF_SOMETHING_ELSE = [
    ({"ids": ["a"]}, 2),
    ({"ids": ["a"]}, None),
    ({"ids": [], "id": "d", "name": "a", "metric": "l2"}, 1),
    ({"document_id": "e", "status": "queued"}, 1),
    ({"job_id": "j", "status": "queued", "files": [{"name": "b.md", "status": "queued"}], "collection": "docs"}, None),
    ({"job_id": "j", "status": "queued", "files": [{"name": "plan.md"}], "collection": "others"}, None),
]


@pytest.mark.parametrize(
    ("outcome", "left", "collection_key"),
    [
        *((outcome, outcome, collection_key) for outcome, collection_key in OF_SOMETHING_ELSE),
        ({"ids": ["a", "b"], "created": 2}, {"ids": ["b"], "created": 2}, 1),
        ({"document_id": "d", "status": "created"}, {"document_id": "", "status": "created"}, 1),
        ({"document_id": "e", "chunk_ids": ["a", "b"]}, {"document_id": "e", "chunk_ids": ["b"]}, 1),
        ({"ids": ["piece of a that was gone before", "b"]}, {"ids": ["b"]}, 1),
        (
            {"errors": ["in/plan.md", "b.md"], "warnings": ["in/plan.md: is long", "fine"]},
            {"errors": ["b.md"], "warnings": ["fine"]},
            1,
        ),
        ({"failures": [{"filename": "in/plan.md"}, {"filename": "b"}]}, {"failures": [{"filename": "b"}]}, 1),
    ],
)
@SQLITE
def test_what_is_erased_is_left_out_and_a_repeat_is_answered_still(catalog, outcome, left, collection_key):
    _keep(catalog, "key", kept=Kept(outcome, 7, "1.2"), collection_key=collection_key)
    assert _leave_out(catalog) == (left != outcome)
    assert _find(catalog, "key", kind=dict) == Kept(left, 7, "1.2")
    assert _leave_out(catalog) == 0


@pytest.mark.parametrize("collection", [{}, {"collection": "docs"}])
@SQLITE
def test_files_of_uploads_are_left_out(catalog, collection):
    upload = {"job_id": "j", "status": "queued", "files": [{"name": "plan.md"}, {"name": "b.md"}], **collection}
    _keep(catalog, "key", kept=Kept(upload), collection_key=None)
    assert _leave_out(catalog, Target(owner="key:ada", job_ids=frozenset({"i"})), None) == 0
    assert _leave_out(catalog) == 1
    assert _find(catalog, "key", kind=dict).outcome == {**upload, "files": [{"name": "b.md"}]}
    assert _leave_out(catalog, Target(owner="key:ada", job_ids=frozenset({"j"})), None) == 1
    assert _find(catalog, "key", kind=dict).outcome == {**upload, "files": []}


def test_answers_that_earlier_releases_kept_lose_what_is_erased(catalog):
    _keep(catalog, "key")
    answer = {"status": "added", "ids": ["a", "b"], "id": "d"}
    stored = orjson.dumps([answer, "1.2"])
    catalog.commit(lambda transaction: transaction.run("UPDATE idempotency_keys SET outcome = ?", (stored,)))
    assert _leave_out(catalog) == 1
    assert _find(catalog, "key").outcome == EarlierAnswer({**answer, "ids": ["b"], "id": ""})
