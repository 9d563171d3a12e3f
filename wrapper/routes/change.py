"""What changes in a collection, for those who keep a copy of it.

This route goes beyond the contract *storage*.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from flask import Blueprint, Response

from schemas.errors import ClientGoneError
from schemas.wire.storage.change import FOLLOWING, changed_line, last_line
from wrapper.audit.noted import Noted
from wrapper.stores.following import Changes
from wrapper.web.audited import noted_here
from wrapper.web.bodies import client_is_gone, encode
from wrapper.web.callers import unwanted_watch
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, change_lane, store
from wrapper.web.responses import stream_snapshot
from wrapper.web.route_table import declare

blueprint = Blueprint("changes", __name__)

CUT = "changes were cut: their reader took longer than RAG_EXPORT_SECONDS"


@blueprint.get("/collections/<name>/changes")
@declare(Lane.READ, query=FOLLOWING, exact=True)
def follow_collection(name: str) -> Response:
    asked = arguments()
    following, model = store().following, asked["embedding_model"]
    if asked["wait"] and not following.has_changed(name, asked["since"], embedding_model=model):
        change_lane(Lane.FOLLOWING)  # who has something to read does not wait for those who have not
        following.wait(name, asked["since"], asked["wait"], unwanted_watch(), embedding_model=model)
        if client_is_gone():
            raise ClientGoneError
        change_lane(Lane.READ)
    with ExitStack() as stack:
        found = following.changes(
            name,
            asked["since"],
            asked["limit"],
            with_embeddings="embedding" in asked["include"],
            embedding_model=model,
        )
        changes = stack.enter_context(found)
        snapshot = stack.pop_all()
    return stream_snapshot(_lines(snapshot, changes, noted_here()), snapshot, CUT, name)


def _lines(snapshot: ExitStack, changes: Changes, noted: Noted) -> Iterator[bytes]:
    noted.count = 0
    with snapshot:
        for change in changes:
            yield encode(changed_line(change)) + b"\n"
            noted.count += 1  # once it is taken
        last = last_line(changes.come_to, changes.base, changes.history, is_more=changes.is_more)
    yield encode(last) + b"\n"
