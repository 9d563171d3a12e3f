"""What is learnt of a request while it is carried out, for its line in the audit log.

It travels beside the call in a context variable, as the caller does. Where there is no request, noting does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field

from schemas.access.callers import Caller, Scope, current_or_none

MOST_NAMES = 16
"""The most collections that are named in a line; of further ones their number is."""
NOT_FOUND = 404


@dataclass(slots=True)
class Noted:
    """What is known of one request so far."""

    names: list[str] = field(default_factory=list)
    more_names: int = 0
    count: int | None = None
    tool: str | None = None
    subjects: list[str] = field(default_factory=list)
    """The keys or the user that the request does something to."""
    scope: Scope | None = None
    """The scope that the request turned out to need, where its route alone does not tell."""
    key_id: str | None = None
    """The id of a key that the request came with and that is not valid, or not any more."""
    has_ended_key: bool = False
    """Whether that key was valid once, so that it is known who asks."""
    is_denied: bool = False
    """Whether the request is refused for who asks, although its status does not say so."""
    status: int | None = None
    """The status of what the request asked for, where its answer is another's: one that tells of a tool's refusal is
    200."""
    is_recordable: bool = False
    """Whether there is room for its line."""

    @property
    def collection(self) -> str | None:
        names = [*self.names, f"+{self.more_names}"] if self.more_names else self.names
        return ",".join(names) or None


_now: ContextVar[Noted | None] = ContextVar("noted", default=None)


def begin() -> Noted:
    """Begin to note what is learnt of a request, in this thread, until `end`."""
    noted = Noted()
    _now.set(noted)
    return noted


def end() -> None:
    _now.set(None)


def note_collection(name: str) -> None:
    """Note that the request is about this collection; there may be several."""
    noted = _now.get()
    if noted is None or name in noted.names:
        return
    if len(noted.names) < MOST_NAMES:
        noted.names.append(name)
    else:
        noted.more_names += 1


def note_count(count: int) -> None:
    """Note that this many more documents were written, deleted or exported."""
    noted = _now.get()
    if noted is not None:
        noted.count = (noted.count or 0) + count


def note_tool(name: str, scope: Scope) -> None:
    """Note the tool that the request calls and the scope that this needs."""
    noted = _now.get()
    if noted is not None:
        noted.tool, noted.scope = name, scope


def note_subject(name: str) -> None:
    """Note the id of a key, or the user, that the request does something to."""
    noted = _now.get()
    if noted is not None and name not in noted.subjects:
        noted.subjects.append(name)


def note_key(key_id: str, *, has_ended: bool) -> None:
    """Note the id of a key that is refused, because it has ended or because there is none like it."""
    noted = _now.get()
    if noted is not None:
        noted.key_id, noted.has_ended_key = key_id, has_ended


def note_status(status: int) -> None:
    """Note the status of what the request asked for, in case its answer is given with another."""
    noted = _now.get()
    if noted is not None:
        noted.status = status


def note_missing(names: Iterable[str], is_known: Callable[[Caller, str], bool] = Caller.knows) -> None:
    """Note that the request named these collections and was told that there are none. Where they are not the caller's
    that is a denial, whether they exist or not.

    With `Caller.knows_some`, the names are what those in a database begin with.
    """
    noted, caller = _now.get(), current_or_none()
    if noted is None or caller is None:
        return
    for name in names:
        if not is_known(caller, name):
            note_collection(name)
            noted.is_denied, noted.status = True, NOT_FOUND
