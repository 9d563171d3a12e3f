"""Whose the things are that callers make (conversations, sessions and notes, jobs, watchers, connections), and who else
may see them.

Every store of such things keeps an `Ownership` with each and goes by an `Asker`: a thing is its owner's alone until the
owner shares it. Sharing never widens what somebody sees of the documents: a thing is shared with callers who see the
same collections and documents as its owner, and with those who see all.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import OwnedByAnotherError
from schemas.shared_database import Transaction

OPEN = ""
"""The owner where callers have no names. It also owns everything that was made before there were owners."""
OWNS_NOTHING = "within"
"""The owner of what a caller sees through another service: nobody makes anything as this one. It is also the
reach of such callers, with whom nothing is shared."""
USER_OWNER = "user:"
"""What the owners begin with that are users of an identity provider."""
NOBODY = ""
"""The audience of a thing that is not shared."""
EVERYTHING_SEEN = "*"
"""The reach of callers who see every collection, and the audience of what they share."""
OWNER_COLUMN = "owner VARCHAR(200) NOT NULL DEFAULT ''"
AUDIENCE_COLUMN = "audience VARCHAR(64) NOT NULL DEFAULT ''"
"""The columns that a table of owned things has, for those who add them to one that has not."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """To whom a thing belongs, and the reach of the callers with whom it is shared, `NOBODY` for none."""

    owner: str = OPEN
    audience: str = NOBODY

    @property
    def is_shared(self) -> bool:
        return self.audience != NOBODY


UNNAMED = Ownership()
"""The ownership of what nobody in particular has made."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A caller, as stores of owned things know them.

    `reach` stands for the collections and documents that they may see, and is equal for callers who see the same. An
    administrator `sees_all` that anybody owns. `collections` are those whose documents they may read, as names and as
    beginnings with `*` after them; None where that is not told, and the reach is all there is to go by.
    """

    owner: str = OPEN
    sees_all: bool = False
    reach: str = EVERYTHING_SEEN
    collections: tuple[str, ...] | None = None

    def made(self, *, shared: bool) -> Ownership:
        """Return the ownership of something that the asker makes."""
        return Ownership(self.owner, self.reach if shared else NOBODY)

    def shared_anew(self, of: Ownership, shared: bool | None) -> Ownership:
        """Return the ownership of a thing after a change by the asker; None leaves it as it is shared."""
        if shared is None or shared == of.is_shared:
            return of
        return Ownership(of.owner, self.made(shared=shared).audience)

    def sees(self, of: Ownership) -> bool:
        return self.owns(of) or (of.is_shared and self.reach in (of.audience, EVERYTHING_SEEN))

    def owns(self, of: Ownership) -> bool:
        """Return whether the asker may change or delete what belongs to `of.owner`."""
        return self.sees_all or of.owner == self.owner

    def check_owns(self, of: Ownership, what: str) -> None:
        """Raise OwnedByAnotherError when the asker sees a thing but may not change it; `what` names it."""
        if not self.owns(of):
            raise OwnedByAnotherError(what)

    def seen(self) -> tuple[str, tuple[str, ...]]:
        """Return `sees` as (a condition on the columns `owner` and `audience`, its parameters)."""
        if self.sees_all:
            return "1 = 1", ()
        if self.reach == EVERYTHING_SEEN:
            return "(owner = ? OR audience <> '')", (self.owner,)
        return "(owner = ? OR audience = ?)", (self.owner, self.reach)


NOBODY_KNOWN = Asker()
"""A caller without a name, who sees what has no owner, and what is shared."""


def ownership_of(
    transaction: Transaction, table: str, column: str, value: str, asker: Asker, of_owner: str | None = None
) -> Ownership | None:
    """Return the ownership of the thing whose `column` has a value, None when the asker sees none.

    Where several owners have one of that name, it is the asker's own, else the one of the first owner, and with
    `of_owner` that owner's.
    """
    condition, parameters = asker.seen()
    if of_owner is not None:
        condition, parameters = f"{condition} AND owner = ?", (*parameters, of_owner)
    row = transaction.row(
        f"SELECT owner, audience FROM {table} WHERE {column} = ? AND {condition} "
        "ORDER BY CASE WHEN owner = ? THEN 0 ELSE 1 END, owner LIMIT 1",
        (value, *parameters, asker.owner),
    )
    return None if row is None else Ownership(*row)


def check_meant(asker: Asker, of: Ownership, of_owner: str | None, what: str) -> None:
    """Raise OwnedByAnotherError unless the asker may change a thing that was found by a name of its owner's choice.

    Such names are not unique, so an administrator says whose thing is meant. Otherwise the repetition of a request that
    has deleted something would delete what somebody else calls the same.
    """
    asker.check_owns(of, what)
    if of.owner != asker.owner and of_owner is None:
        raise OwnedByAnotherError(what, hint="An administrator names its owner in 'owner'")
