"""A caller's view, sent along when a service asks another one on the caller's behalf.

A connection may lead back to the service it belongs to, with a key that may see more than the caller. Whoever sends a
view along only reads, owns nothing, sees nothing that others share but connections that everybody may use, and has the
limits of their key: so nobody gains by making one up. Only the service that it names reads it, since names of
collections mean something else elsewhere.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import replace

import orjson

from schemas.access.callers import Caller, Kind, Scope, current_or_none
from schemas.access.owners import OWNS_NOTHING
from schemas.errors import InvalidInputError
from schemas.names import is_pattern, matches_pattern
from schemas.where import EVERYTHING, all_of, parse_where, to_json

HEADER = "RAG-Within"


def view_sent(caller: Caller, service_id: str) -> str | None:
    """Return the value of the header for a caller of the service of that id, None for one who sees everything."""
    if caller.is_admin or not service_id:
        return None
    told = {
        "scopes": sorted(caller.granted),
        "collections": caller.collections,
        "where": None if caller.where == EVERYTHING else to_json(caller.where),
    }
    return f"{service_id} {base64.urlsafe_b64encode(orjson.dumps(told)).decode()}"


def view_of_current(service_id: str) -> str | None:
    """Return the value of the header for whom this thread works, None where it works for nobody."""
    caller = current_or_none()
    return None if caller is None else view_sent(caller, service_id)


def narrowed(caller: Caller, sent: str, service_id: str) -> Caller:
    """Return a caller who reads what both they and the view that was sent along may read; one sent by another service
    says nothing.

    Raises InvalidInputError when it cannot be read.
    """
    sender, _, encoded = sent.partition(" ")
    if sender != service_id:
        return caller
    try:
        told = orjson.loads(base64.urlsafe_b64decode(encoded))
        scopes = frozenset(map(Scope, told["scopes"]))
        collections, where = told["collections"], told["where"]
        within = None if collections is None else tuple(map(str, collections))
        seen = EVERYTHING if where is None else parse_where(where)
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise InvalidInputError(f"{HEADER} cannot be read", code="invalid_field", field=HEADER) from None
    return replace(
        caller,
        kind=Kind.KEY if caller.kind is Kind.OPEN else caller.kind,
        scopes=frozenset({Scope.READ} & scopes & caller.granted),
        owner=OWNS_NOTHING,
        payer=caller.owner,
        collections=common(caller.collections, within),
        where=all_of(caller.where, seen),
    )


def common(first: Sequence[str] | None, second: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names and patterns of the collections that both fit; None stands for all."""
    if first is None or second is None:
        found = second if first is None else first
        return None if found is None else tuple(found)
    return tuple(dict.fromkeys(each for a in first for b in second for each in _both(a, b)))


def _both(first: str, second: str) -> tuple[str, ...]:
    """Return what fits both patterns: of two beginnings, the longer when it begins with the shorter."""
    if not is_pattern(first):
        return (first,) if matches_pattern(first, second) else ()
    if not is_pattern(second):
        return (second,) if matches_pattern(second, first) else ()
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    return (longer,) if longer.startswith(shorter[:-1]) else ()
