"""What callers with limits for a day have used of them, in the catalogue's database: all workers and all services of a
catalogue count there, and a restart forgets nothing.

A day is one of UTC. There is a row for each caller, of the last day on which they used something.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from schemas.access.callers import Caller
from schemas.errors import TooManyRequestsError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.small_tables import Table, having
from wrapper.access.limits import Standing
from wrapper.access.stored_keys import utc_now

STEPS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE daily_use (
            owner {text} NOT NULL PRIMARY KEY, day BIGINT NOT NULL,
            embedded_tokens BIGINT NOT NULL, chats BIGINT NOT NULL
        )""",
    ),
)
TOKENS, CHATS = "embedded_tokens_per_day", "chats_per_day"
DAY_SECONDS = 86_400


def _use(embedded_tokens: int, chats: int) -> tuple[int, int]:
    return embedded_tokens, chats


USES = Table("daily_use", _use, order="owner")


class DailyUse:
    """The table of what was used today. Safe for several threads and processes."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        place = Place("counts of a day", "removed", self.erase, fills_late=True)
        database.open_part("daily use", STEPS, place)

    def erase(self, target: Target) -> int:
        """Forget what was counted for an erased user, and return the number of rows."""
        of_user = having(owner=target.owner)
        return self._database.freely.commit(lambda transaction: USES.remove(transaction, of_user))

    def begin_chat(self, caller: Caller) -> Standing | None:
        """Count a chat call. Return how the caller stands with their limit, None when they have none.

        Raises TooManyRequestsError, and counts nothing, when they have used it up.
        """
        most = caller.limits.chats_per_day
        if most is None:
            return None
        now = self._clock()

        def operation(transaction: Transaction) -> int:
            _, chats = _used(transaction, caller.account, _day(now))
            if chats < most:
                _add(transaction, caller.account, _day(now), chats=1)
            return chats

        before = self._database.freely.commit_quickly(operation)
        if before >= most:
            raise self._used_up(f"chat calls a day, {most:,},", CHATS, now)
        return Standing(CHATS, most - before - 1, _seconds_left(now))

    def check_tokens(self, caller: Caller) -> None:
        """Raise TooManyRequestsError when the caller has used up the tokens that may be embedded for them today."""
        most = caller.limits.embedded_tokens_per_day
        if most is None:
            return
        now = self._clock()
        with self._database.read() as transaction:
            tokens, _ = _used(transaction, caller.account, _day(now))
        if tokens >= most:
            raise self._used_up(f"embedded tokens a day, {most:,},", TOKENS, now)

    def count_tokens(self, caller: Caller, tokens: int) -> None:
        """Count tokens that were embedded for a caller."""
        day = _day(self._clock())
        self._database.freely.commit_quickly(lambda transaction: _add(transaction, caller.account, day, tokens=tokens))

    def used(self, owner: str) -> tuple[int, int]:
        """Return the tokens that were embedded today for an owner, and their chat calls."""
        with self._database.read() as transaction:
            return _used(transaction, owner, _day(self._clock()))

    def _used_up(self, what: str, limit: str, now: datetime) -> TooManyRequestsError:
        return TooManyRequestsError(
            f"The key's limit of {what} is used up until midnight UTC",
            retry_after_seconds=_seconds_left(now),
            limit=limit,
        )


def _used(transaction: Transaction, owner: str, day: int) -> tuple[int, int]:
    return USES.first(transaction, having(owner=owner, day=day)) or (0, 0)


def _add(transaction: Transaction, owner: str, day: int, *, tokens: int = 0, chats: int = 0) -> None:
    transaction.run("DELETE FROM daily_use WHERE owner = ? AND day < ?", (owner, day))
    transaction.run(
        "INSERT INTO daily_use (owner, day, embedded_tokens, chats) VALUES (?, ?, ?, ?) ON CONFLICT (owner) DO UPDATE "
        "SET embedded_tokens = daily_use.embedded_tokens + excluded.embedded_tokens, "
        "chats = daily_use.chats + excluded.chats",
        (owner, day, tokens, chats),
    )


def _day(now: datetime) -> int:
    return int(now.timestamp() // DAY_SECONDS)


def _seconds_left(now: datetime) -> int:
    return max(1, math.ceil((_day(now) + 1) * DAY_SECONDS - now.astimezone(UTC).timestamp()))
