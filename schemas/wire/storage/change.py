"""The changes of a collection on the wire: lines of JSON, the last of which says how far they come."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, post_load

from schemas.records import Change, Since
from schemas.wire.body import Body
from schemas.wire.fields import Count, Include, Text
from schemas.wire.storage.document import Answer, document_answer, exported_line

DEFAULT_CHANGES, MOST_CHANGES = 1_000, 10_000
LONGEST_WAIT_SECONDS = 60
LATEST_REVISION = 2**53


class Following(Body):
    """The query string: how far the follower has come, and what it wants to be told."""

    since = Count(least=0, most=LATEST_REVISION, in_text=True, load_default=0)
    as_of = Count(least=0, most=LATEST_REVISION, in_text=True, load_default=None)
    history = Text(load_default=None)
    limit = Count(least=1, most=MOST_CHANGES, capped=True, in_text=True, load_default=DEFAULT_CHANGES)
    include = Include(load_default=())
    embedding_model = Text(load_default=None)
    wait = Count(least=0, most=LONGEST_WAIT_SECONDS, in_text=True, load_default=0)

    @post_load
    def _to_since(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        revision, as_of, history = loaded["since"], loaded.pop("as_of"), loaded.pop("history")
        if as_of is not None and revision == 0:
            raise ValidationError("goes with since, which the same line had as next", "as_of")
        return {**loaded, "since": Since(revision, as_of, history)}


FOLLOWING = Following()


def changed_line(change: Change) -> Answer:
    """Return the line of a change; that of a document is also a line of an NDJSON stream of documents."""
    document = change.document
    if document is None:
        return {"revision": change.revision, "op": "delete", "id": change.id}
    told = document_answer(document) if document.embedding is None else exported_line(document)
    if document.extras.textless:
        told["text"] = None
    return {"revision": change.revision, "op": "upsert", **told}


def last_line(come_to: int, base: int, history: str, *, is_more: bool) -> Answer:
    """Return the line that says what to ask with next time: `next` as since, `as_of` and `history` as they are."""
    as_of = {"as_of": base} if come_to < base else {}
    return {"next": come_to, **as_of, "history": history, "more": is_more}
