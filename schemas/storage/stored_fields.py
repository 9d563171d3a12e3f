"""Reads records back that were stored by the names of their fields, maybe by another release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any, TypeVar

T = TypeVar("T")


def of_fields(kind: Callable[..., T], stored: Mapping[str, Any]) -> T:
    """Return what `kind` makes of the stored fields that it takes; others, which another release stored, are passed
    over. Raises TypeError when one is missing that it needs."""
    names = _names(kind)
    return kind(**stored) if names is None else kind(**{name: stored[name] for name in names & stored.keys()})


@cache
def _names(kind: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of the fields that `kind` takes, None when it takes any."""
    try:
        parameters = signature(kind).parameters.values()
    except ValueError:  # a type of Python's own
        return None
    is_open = any(each.kind is Parameter.VAR_KEYWORD for each in parameters)
    return None if is_open else frozenset(each.name for each in parameters)
