"""The table of access, where it has reasons of its own."""

from schemas.access.callers import Scope
from schemas.access.table import ROUTES


def test_only_who_may_make_connections_is_told_which_variables_are_set():
    telling = [each for each in ROUTES if "/env-vars" in each or each.endswith("/api/connections/validate")]
    assert len(telling) == 4
    assert {ROUTES[each].needs for each in telling} == {Scope.CONNECT}
