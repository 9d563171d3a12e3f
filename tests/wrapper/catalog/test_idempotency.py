"""A repeated write is answered as the first time, for a day."""

from __future__ import annotations

import pytest

from schemas.errors import ConflictError
from wrapper.catalog import idempotency
from wrapper.catalog.idempotency import KEPT_SECONDS, KeptAnswer

NOW = 1_800_000_000.0
ANSWER = KeptAnswer({"status": "added", "ids": ["a"], "nested": {"x": None}}, 7, "1.2")


def _keep(catalog, key, *, now=NOW, answer=ANSWER, digest="one", collection_key=1):
    catalog.commit(lambda transaction: idempotency.keep(transaction, key, digest, answer, now, collection_key))


def _find(catalog, key, digest="one"):
    with catalog.read() as transaction:
        return idempotency.find(transaction, key, digest)


def test_the_first_answer_is_given_again(catalog):
    _keep(catalog, "key")
    assert _find(catalog, "key") == ANSWER


def test_an_answer_without_a_change_is_kept_too(catalog):
    unchanged = KeptAnswer({}, None, None)
    _keep(catalog, "key", answer=unchanged)
    assert _find(catalog, "key") == unchanged


def test_an_unknown_key_has_no_answer(catalog):
    _keep(catalog, "key")
    assert _find(catalog, "KEY") is None


def test_a_key_of_another_request_is_a_conflict(catalog):
    _keep(catalog, "key")
    with pytest.raises(ConflictError) as refused:
        _find(catalog, "key", digest="two")
    assert refused.value.code == "idempotency_key_reused"


def test_answers_are_forgotten_after_a_day(catalog):
    _keep(catalog, "old")
    _keep(catalog, "young", now=NOW + 10)
    _keep(catalog, "new", now=NOW + KEPT_SECONDS + 5)
    assert _find(catalog, "old") is None
    assert _find(catalog, "young") == _find(catalog, "new") == ANSWER


def test_an_answer_is_kept_with_its_write_or_not_at_all(catalog):
    def write(transaction):
        idempotency.keep(transaction, "key", "one", ANSWER, NOW, 1)
        raise ConflictError("the write itself is refused")

    with pytest.raises(ConflictError):
        catalog.commit(write)
    assert _find(catalog, "key") is None


def test_a_deleted_collection_takes_its_answers_along(catalog):
    for key, collection_key in (("mine", 1), ("another's", 2), ("nobody's", None)):
        _keep(catalog, key, collection_key=collection_key)
    catalog.commit(lambda transaction: idempotency.forget(transaction, 1))
    assert _find(catalog, "mine") is None
    assert _find(catalog, "another's") == _find(catalog, "nobody's") == ANSWER
