"""What the storage of this service says of itself to whom."""

import pytest

from providers.base import ProviderContext
from providers.local import LocalProvider
from schemas.access.callers import ANYBODY, Caller, Kind, Scope, acting_as
from schemas.where import parse_where

ALONE = frozenset({Scope.CONNECT})
NARROW = Caller("narrow", "narrow", Kind.KEY, ALONE, collections=("mine*",))
FILTERED = Caller("filtered", "filtered", Kind.KEY, ALONE, where=parse_where({"public": True}))


class Empty:
    def collections(self):
        return []


@pytest.mark.parametrize(
    ("caller", "tells"),
    [(ANYBODY, True), (Caller("all", "all", Kind.KEY, ALONE), True), (NARROW, False), (FILTERED, False)],
)
def test_the_size_of_the_data_directory_is_for_those_who_see_everything(tmp_path, caller, tells):
    (tmp_path / "theirs").write_bytes(b"x" * 100)
    provider = LocalProvider({}, ProviderContext(storage=Empty(), data_dir=tmp_path))
    with acting_as(caller):
        assert provider.check() == {"collections_count": 0, **({"storage_bytes": 100} if tells else {})}
