"""Aliases of collections on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schemas.records import Alias
from schemas.storage.outcomes import AliasOutcome
from schemas.wire.body import Body, ExactBody
from schemas.wire.checked_fields import CollectionName

Answer = dict[str, Any]


class AliasTarget(ExactBody):
    """The body of an alias: what it stands for."""

    collection = CollectionName(required=True, error_messages={"required": "is required"})


class AliasList(Body):
    """The query string of a list of aliases."""

    collection = CollectionName(load_default=None)


# Making a schema costs more than using it, and it keeps no state.
ALIAS_TARGET, ALIASES_ARGUMENTS = AliasTarget(), AliasList()


def alias_answer(found: Alias) -> Answer:
    return {"alias": found.name, "collection": found.collection}


def aliases_answer(found: Sequence[Alias]) -> Answer:
    return {"aliases": [alias_answer(each) for each in found]}


def alias_put_answer(put: AliasOutcome) -> Answer:
    status = "created" if put.previous is None else "switched"
    return {"status": status, "alias": put.alias, "collection": put.collection, "previous": put.previous}


def alias_deleted_answer(removed: AliasOutcome) -> Answer:
    return {"status": "deleted", "alias": removed.alias, "collection": removed.collection}
