"""The names that the engine has for collections.

The engine keeps the first name of a collection, whatever it is called later: so a rename is one transaction of the
catalogue, and no crash can leave two names that disagree.
"""

from __future__ import annotations

from schemas.names import is_elsewhere, parts_of_name
from wrapper.catalog.contract import Transaction

MOST_CHARACTERS = 512
ID_CHARACTERS = 8


def engine_name(transaction: Transaction, name: str, identity: str) -> str:
    """Return what the engine shall call a new collection: its name, or with a part of its `identity` (a UUID) where a
    collection that was renamed still has that name there, or where it is in another database than the default one."""
    full, (_, _, name) = name, parts_of_name(name)
    if not is_elsewhere(full) and transaction.row("SELECT 1 FROM collections WHERE engine_name = ?", (name,)) is None:
        return name
    return f"{name[: MOST_CHARACTERS - ID_CHARACTERS - 1]}-{identity[:ID_CHARACTERS]}"
