"""Bodies that make and change keys."""

import pytest

from schemas.access.callers import Limits
from schemas.errors import InvalidInputError
from schemas.wire.body import load
from schemas.wire.keys import CHANGED_KEY, NEW_KEY

KEY = {"name": "a", "scopes": ["read"]}


@pytest.mark.parametrize("given", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "tomorrow", "", 7])
@pytest.mark.parametrize("schema", [NEW_KEY, CHANGED_KEY])
def test_a_time_that_there_is_not_is_refused(schema, given):
    with pytest.raises(InvalidInputError, match=r"^expires_at must be a time like 2027-01-31T12:00:00Z$"):
        load(schema, {**KEY, "expires_at": given})


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(InvalidInputError, match=r"must be a time with a zone"):
        load(NEW_KEY, {**KEY, "expires_at": "2027-01-31T12:00:00"})


@pytest.mark.parametrize("given", [float("nan"), float("inf"), float("-inf"), 10**400])
def test_a_rate_that_is_no_finite_number_is_refused(given):
    with pytest.raises(InvalidInputError, match=r"^limits.requests_per_second must be a finite number$"):
        load(NEW_KEY, {**KEY, "limits": {"requests_per_second": given}})


def test_a_burst_comes_with_its_rate():
    with pytest.raises(InvalidInputError, match=r"^limits.burst must come with requests_per_second$"):
        load(CHANGED_KEY, {"limits": {"burst": 5}})
    both = {"burst": 5, "requests_per_second": 2}
    assert load(CHANGED_KEY, {"limits": both})["limits"] == Limits(**both)


def test_sentences_about_a_key_are_whole():
    with pytest.raises(InvalidInputError, match=r"Its only scope must be read$"):
        load(NEW_KEY, {**KEY, "scopes": ["write"], "where": {"a": 1}})
    with pytest.raises(
        InvalidInputError, match=r"^Collection name is required\. The beginning of a name has '\*' after"
    ):
        load(NEW_KEY, {**KEY, "collections": [""]})
