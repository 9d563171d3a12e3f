"""What the answer to a write waits for, on the wire: the same in the query string of every write to a collection."""

from __future__ import annotations

from schemas.storage.write_waits import WAITS
from schemas.wire.body import Body
from schemas.wire.fields import Choice


class Waiting(Body):
    """The part of the query string that all writes to collections share."""

    wait = Choice(WAITS, load_default=None)


WAITING_ARGUMENTS = Waiting()
