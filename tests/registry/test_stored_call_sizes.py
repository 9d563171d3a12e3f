"""What services take in one call is known to all workers of a catalogue, and to later starts."""

import pytest

from providers.outbound.call_sizes import CallSize
from registry import stored_call_sizes
from registry.stored_call_sizes import StoredCallSizes


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_what_one_worker_learns_others_know_and_only_the_last_are_kept(database, monkeypatch):
    monkeypatch.setattr(stored_call_sizes, "MAX_SERVICES", 3)
    one, other = StoredCallSizes(database), StoredCallSizes(database)
    for number in range(6):
        one.keep(f"service {number}", CallSize(number + 1, 500_000, 1_000 + number))
    assert [other.find(f"service {number}") is not None for number in range(6)] == [False] * 3 + [True] * 3
    one.keep("service 4", CallSize(2, 100, 2_000, is_plain=True))
    assert other.find("service 4") == CallSize(2, 100, 2_000, is_plain=True)
    other.keep("service 4", None)
    assert one.find("service 4") is None
    database.close()
    one.keep("service 5", None)
    assert one.find("service 5") is None, "without a database, nothing is known and nothing fails"
