"""Which collection a client means by the id of a vector store.

A vector store is a text collection. Its id is made of the collection's, so it stays as long as the collection, whatever
that is called. The name of a collection is taken as well, where people write requests themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from schemas.records import Collection
from wrapper.web.request_parts import store

PREFIX = "vs_"
_ID = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")


def store_id(collection: Collection) -> str:
    """Return the id of the vector store that a collection is."""
    return PREFIX + collection.id.replace("-", "")


def collections_of(store_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the caller's collections that these vector stores are.

    What is the id of none is returned as it is: the name of a collection, or of nothing.
    """
    names: dict[str, str] = {}
    if any(_ID.fullmatch(each) for each in store_ids):
        names = {store_id(each): each.name for each in store().collections()}
    return tuple(dict.fromkeys(names.get(each, each) for each in store_ids))
