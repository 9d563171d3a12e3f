"""The API keys in the catalogue's database. A key's text is never among what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import orjson

from schemas.access.api_keys import ApiKey, Grant, KeyNotFoundError, digest_of, new_id, new_text
from schemas.access.callers import Limits, Scope, check_acting
from schemas.errors import ConflictError, DiskFloorError, InvalidInputError
from schemas.shared_database import Database, Transaction, of_fields

STEPS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE api_keys (
            id VARCHAR(16) PRIMARY KEY, name {text} NOT NULL, digest {bytes} NOT NULL, scopes {text} NOT NULL,
            collections {text}, filter {text}, limits {text}, owner VARCHAR(16) NOT NULL,
            created_at_ms BIGINT NOT NULL, expires_at_ms BIGINT, revoked_at_ms BIGINT, last_used_at_ms BIGINT
        )""",
        "CREATE TABLE api_key_changes (number BIGINT NOT NULL)",
        "INSERT INTO api_key_changes VALUES (0)",
    ),
)
COLUMNS = (
    "id, name, scopes, collections, filter, limits, owner, created_at_ms, expires_at_ms, revoked_at_ms, last_used_at_ms"
)
MAX_KEYS = 100_000
"""The most keys that may be kept, those that have ended included."""
USE_NOTED_EVERY_MS = 60_000
FOREVER_MS = 1 << 62
"""The end of a key without one, where ends are compared."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def utc_now() -> datetime:
    return datetime.now(UTC)


class StoredKeys:
    """The table of keys, usable by several threads and processes.

    Each change raises a number, by which other processes notice that what they remember of keys is out of date.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = utc_now,
        *,
        give_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """`give_room` makes room on a full disk for taking rights away, and returns whether it could."""
        self._database = database
        self._clock = clock
        self._give_room = give_room
        database.open_part("api keys", STEPS)

    def create(
        self, name: str, grant: Grant, *, expires_at: datetime | None = None, keeps_admin: bool = False
    ) -> tuple[ApiKey, str]:
        """Make a key. Return (the key, its text), and keep all of it but the text.

        Raises InvalidInputError when the end is over already, ConflictError when there are `MAX_KEYS` already, or, with
        `keeps_admin`, when the first key is no administrator's or has an end, and DiskFloorError.
        """
        now = self._clock()
        _check_lies_ahead(expires_at, now)

        def operation(transaction: Transaction) -> tuple[ApiKey, str]:
            check_acting()
            if keeps_admin and not transaction.rows("SELECT 1 FROM api_keys LIMIT 1"):
                _check_first(grant, expires_at)
            return self._add(transaction, name, grant, None, now, expires_at)

        return self._database.commit(operation)

    def rotate(self, key_id: str, *, grace: timedelta) -> tuple[ApiKey, str]:
        """Make a successor of a key with the same rights, and let the key end after the grace. Return as `create`.

        The successor lasts as long as the key would have. Raises KeyNotFoundError, DiskFloorError, and
        ConflictError for a key that has ended or was rotated already, unless all its successors were revoked.
        """
        now = self._clock()

        def operation(transaction: Transaction) -> tuple[ApiKey, str]:
            check_acting()
            before = _one(transaction, key_id)
            if before.has_ended(now):
                raise ConflictError(f"API key '{key_id}' has ended", code="api_key_ended", id=key_id)
            # The newest has the end that was meant for all of them: that of an older one is the end of its grace.
            newest = (kin := _of_owner(transaction, before.owner))[0]
            successor = _successor(before, kin)
            if successor is not None:
                sentence = f"API key '{key_id}' was rotated already: its successor is '{successor.id}'"
                raise ConflictError(sentence, code="api_key_rotated", id=key_id, successor=successor.id)
            ends_at = now + grace if before.expires_at is None else min(before.expires_at, now + grace)
            _set_end(transaction, key_id, ends_at)
            made_at = max(now, newest.created_at + MILLISECOND)
            return self._add(transaction, before.name, before.grant, before.owner, made_at, newest.expires_at)

        return self._database.commit(operation)

    def change(self, key_id: str, change: Callable[[ApiKey], ApiKey], *, keeps_admin: bool = False) -> ApiKey:
        """Replace the name, the rights and the end of a key by those that `change` returns.

        Where all its successors were revoked, the end is also that of the next one.

        Raises KeyNotFoundError, InvalidInputError when a new end is over already, what `change` raises, and, with
        `keeps_admin`, ConflictError when the keys of administrators would all end sooner.
        """
        now = self._clock()

        def operation(transaction: Transaction) -> ApiKey:
            check_acting()
            before = _one(transaction, key_id)
            until = _administered_until(transaction, now)
            after = change(before)
            if after.expires_at != before.expires_at:
                _check_lies_ahead(after.expires_at, now)
                kin = _of_owner(transaction, before.owner)
                if _successor(before, kin) is None:  # then `rotate` takes the end of the newest
                    _set_end(transaction, kin[0].id, after.expires_at)
            transaction.run(
                "UPDATE api_keys SET name = ?, scopes = ?, collections = ?, filter = ?, limits = ?, expires_at_ms = ? "
                "WHERE id = ?",
                (after.name, *_spelt(after.grant), _ms(after.expires_at), key_id),
            )
            if keeps_admin and _administered_until(transaction, now) < until:
                raise _last_administrator(key_id, "expires_at" if Scope.ADMIN in after.grant.scopes else "scopes")
            _count_change(transaction)
            return after

        return self._commit_on_full_disk(operation)

    def revoke(self, key_id: str, *, keeps_admin: bool = False) -> ApiKey:
        """End a key at once, and return it. One that was revoked before keeps its time.

        Raises KeyNotFoundError, and, with `keeps_admin`, ConflictError when the keys of administrators would all end
        sooner.
        """
        now = self._clock()

        def operation(transaction: Transaction) -> ApiKey:
            check_acting()
            _one(transaction, key_id)
            until = _administered_until(transaction, now)
            ended = "UPDATE api_keys SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL"
            transaction.run(ended, (_ms(now), key_id))
            if keeps_admin and _administered_until(transaction, now) < until:
                raise _last_administrator(key_id)
            _count_change(transaction)
            return _one(transaction, key_id)

        return self._commit_on_full_disk(operation)

    def all(self) -> list[ApiKey]:
        """Return all keys, the oldest first, those that have ended included."""
        with self._database.read() as transaction:
            rows = transaction.rows(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at_ms, id")
        return [_key(*row) for row in rows]

    def one(self, key_id: str) -> ApiKey:
        """Return the key of that id. Raises KeyNotFoundError when there is none."""
        with self._database.read() as transaction:
            return _one(transaction, key_id)

    def of_owner(self, first_id: str) -> list[ApiKey]:
        """Return a key and all that came from it by rotation, the newest first."""
        with self._database.read() as transaction:
            return _of_owner(transaction, first_id)

    def find(self, key_id: str) -> tuple[ApiKey, bytes] | None:
        """Return (the key of that id, the digest of its text), None when there is none."""
        with self._database.read() as transaction:
            row = transaction.row(f"SELECT {COLUMNS}, digest FROM api_keys WHERE id = ?", (key_id,))
        return None if row is None else (_key(*row[:-1]), bytes(row[-1]))

    def valid(self) -> int:
        """Return how many keys have neither ended nor been revoked."""
        with self._database.read() as transaction:
            row = transaction.row(
                "SELECT count(*) FROM api_keys "
                "WHERE revoked_at_ms IS NULL AND (expires_at_ms IS NULL OR expires_at_ms > ?)",
                (_ms(self._clock()),),
            )
        return 0 if row is None else int(row[0])

    def state(self) -> tuple[int, bool]:
        """Return (the number that each change raises, whether there was ever a key)."""
        with self._database.read() as transaction:
            row = transaction.row("SELECT number, EXISTS (SELECT 1 FROM api_keys) FROM api_key_changes")
        assert row is not None
        return int(row[0]), bool(row[1])

    def note_uses(self, used_at: Mapping[str, datetime]) -> None:
        """Note when keys were last used, each at most once in `USE_NOTED_EVERY_MS`."""

        def operation(transaction: Transaction) -> None:
            for key_id, at in sorted(used_at.items()):
                transaction.run(
                    "UPDATE api_keys SET last_used_at_ms = ? "
                    "WHERE id = ? AND (last_used_at_ms IS NULL OR last_used_at_ms <= ?)",
                    (_ms(at), key_id, _ms(at) - USE_NOTED_EVERY_MS),
                )

        self._database.freely.commit_quickly(operation)

    def _commit_on_full_disk(self, operation: Callable[[Transaction], ApiKey]) -> ApiKey:
        """Commit what may take rights away: a key that got out must not go on for a full disk."""
        try:
            return self._database.freely.commit(operation)
        except DiskFloorError:
            if not self._give_room():
                raise
        return self._database.freely.commit(operation)

    def _add(
        self,
        transaction: Transaction,
        name: str,
        grant: Grant,
        owner: str | None,
        made_at: datetime,
        expires_at: datetime | None,
    ) -> tuple[ApiKey, str]:
        count = transaction.row("SELECT count(*) FROM api_keys")
        if count is not None and count[0] >= MAX_KEYS:
            raise ConflictError(
                f"There are {count[0]} API keys, which is as many as there may be", code="too_many_keys"
            )
        key_id = new_id()
        while transaction.row("SELECT 1 FROM api_keys WHERE id = ?", (key_id,)) is not None:
            key_id = new_id()
        text = new_text(key_id)
        made_at = EPOCH + MILLISECOND * _ms(made_at)
        key = ApiKey(key_id, name, grant, owner or key_id, made_at, _time(_ms(expires_at)))
        transaction.run(
            f"INSERT INTO api_keys ({COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(key.id, key.name, *_spelt(grant), key.owner),
                *(_ms(key.created_at), _ms(key.expires_at), None, None, digest_of(text)),
            ),
        )
        _count_change(transaction)
        return key, text


def _count_change(transaction: Transaction) -> None:
    transaction.run("UPDATE api_key_changes SET number = number + 1")


def _one(transaction: Transaction, key_id: str) -> ApiKey:
    row = transaction.row(f"SELECT {COLUMNS} FROM api_keys WHERE id = ?", (key_id,))
    if row is None:
        raise KeyNotFoundError(key_id)
    return _key(*row)


def _of_owner(transaction: Transaction, first_id: str) -> list[ApiKey]:
    """Return a key and all that came from it by rotation, the newest first."""
    rows = transaction.rows(
        f"SELECT {COLUMNS} FROM api_keys WHERE owner = ? ORDER BY created_at_ms DESC, id", (first_id,)
    )
    return [_key(*row) for row in rows]


def _successor(key: ApiKey, kin: Sequence[ApiKey]) -> ApiKey | None:
    """Return the newest key that came from a key by rotation and was not revoked, None when there is none."""
    return next((each for each in kin if each.created_at > key.created_at and each.revoked_at is None), None)


def _set_end(transaction: Transaction, key_id: str, expires_at: datetime | None) -> None:
    transaction.run("UPDATE api_keys SET expires_at_ms = ? WHERE id = ?", (_ms(expires_at), key_id))


def _check_lies_ahead(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidInputError("expires_at is over already", code="invalid_field", field="expires_at")


def _check_first(grant: Grant, expires_at: datetime | None) -> None:
    if Scope.ADMIN not in grant.scopes:
        raise ConflictError(
            "The first key closes the service to everybody without one, and nobody could make another: first make one "
            "with the scope admin",
            code="first_key_not_admin",
            field="scopes",
        )
    if expires_at is not None:
        raise ConflictError(
            "The first key closes the service to everybody without one, and after its end nobody could make another: "
            "first make one with the scope admin and without an end",
            code="last_administrator",
            field="expires_at",
        )


def _administered_until(transaction: Transaction, now: datetime) -> int:
    """Return when the last of the administrators' keys that count ends, in milliseconds, 0 when there is none."""
    row = transaction.row(
        "SELECT max(coalesce(expires_at_ms, ?)) FROM api_keys WHERE revoked_at_ms IS NULL "
        "AND (expires_at_ms IS NULL OR expires_at_ms > ?) AND ',' || scopes || ',' LIKE ?",
        (FOREVER_MS, _ms(now), f"%,{Scope.ADMIN},%"),
    )
    return 0 if row is None else int(row[0] or 0)


def _last_administrator(key_id: str, field: str | None = None) -> ConflictError:
    place = {} if field is None else {"field": field}
    return ConflictError(
        f"API key '{key_id}' is the last one of an administrator that lasts so long: after it nobody could make "
        "another. First make one with the scope admin and without an end, or set RAG_API_KEY",
        code="last_administrator",
        id=key_id,
        **place,
    )


def _spelt(grant: Grant) -> tuple[str, str | None, str | None, str | None]:
    """Return the columns of the scopes, the collections, the filter and the limits."""
    limits = {name: value for name, value in asdict(grant.limits).items() if value is not None}
    return (
        ",".join(sorted(grant.scopes)),
        None if grant.collections is None else _json(grant.collections),
        None if grant.where is None else _json(grant.where),
        _json(limits) if limits else None,
    )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _key(
    key_id: str,
    name: str,
    scopes: str,
    collections: str | None,
    where: str | None,
    limits: str | None,
    owner: str,
    *times_ms: int | None,
) -> ApiKey:
    grant = Grant(
        frozenset(each for each in Scope if each.value in scopes.split(",")),  # a later release may have others
        None if collections is None else tuple(orjson.loads(collections)),
        None if where is None else orjson.loads(where),
        of_fields(Limits, orjson.loads(limits)) if limits else Limits(),
    )
    created_at, expires_at, revoked_at, last_used_at = map(_time, times_ms)
    assert created_at is not None
    return ApiKey(key_id, name, grant, owner, created_at, expires_at, revoked_at, last_used_at)


@overload
def _ms(time: datetime) -> int: ...
@overload
def _ms(time: datetime | None) -> int | None: ...
def _ms(time: datetime | None) -> int | None:
    # In integers: as floats, the last milliseconds of the year 9999 are in the next one.
    return None if time is None else (time - EPOCH) // MILLISECOND


def _time(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else EPOCH + MILLISECOND * time_ms
