"""`rag-wrapper keys`: make, list, change and end API keys, on the data directory, beside a running service or without
one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interfaces.commands.access.recorded import CommandLog, recorded_commands
from interfaces.commands.options import JsonObject, config_option, log_to_stderr
from schemas.access.callers import Scope
from schemas.access.time_spans import span_of
from schemas.errors import AuditUnwritableError, InvalidInputError

if TYPE_CHECKING:
    from schemas.access.api_keys import ApiKey
    from wrapper.access.stored_keys import StoredKeys

# What takes long to import is imported where it is used, so that help and usage errors are quick.

_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data directory.  [default: $RAG_DATA_DIR]",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


@click.group()
def keys() -> None:
    """Manage API keys, on the data directory. A running service knows of changes within two seconds.

    A key can do what its scopes say: read, write (and read), manage (and write), chat, connect, metrics, admin
    (everything).
    """


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([each.value for each in Scope]),
    multiple=True,
    required=True,
    help="What the key may do; may be repeated.",
)
@click.option(
    "--collection",
    "collections",
    metavar="NAME",
    multiple=True,
    help="A collection it is for, by its name or as prefix*; may be repeated.  [default: all]",
)
@click.option(
    "--where", type=JsonObject(), help="Let it see only documents that match this filter; needs --scope read."
)
@click.option(
    "--expires",
    metavar="TIME",
    help="When it ends: a time with its zone, like 2027-01-31T12:00:00Z, or a span like 12h, 30d, 8w.  "
    "[default: never]",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    help="A limit, each at most once: requests_per_second, burst (with it), concurrent, documents, bytes, "
    "embedded_tokens_per_day, chats_per_day.",
)
@_data_dir
@config_option
@_as_json
def create(
    name: str,
    scopes: Sequence[str],
    collections: Sequence[str],
    where: dict[str, Any] | None,
    expires: str | None,
    limits: Sequence[str],
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Make a key, and print it. It is shown this once, and nobody can look it up later.

    Exit code: 0, 1 if the key was made and could not be recorded in the audit log, 2 if none was made.
    """
    from schemas.wire.body import load
    from schemas.wire.keys import NEW_KEY

    given: dict[str, Any] = {"name": name, "scopes": list(scopes)}
    if collections:
        given["collections"] = list(collections)
    if where is not None:
        given["where"] = where
    if expires is not None:
        given["expires_at"] = ends_at(expires, datetime.now(UTC))
    if limits:
        given["limits"] = _limits(limits)
    wanted = load(NEW_KEY, given)
    with _opened(data_dir, makes=True) as opened:
        keeps_admin = _relies_on_keys()
        opened.make("keys create", lambda stored: stored.create(**wanted, keeps_admin=keeps_admin), as_json=as_json)


@keys.command("list")
@_data_dir
@config_option
@_as_json
def list_keys(data_dir: Path | None, as_json: bool) -> None:
    """List all keys, those that have ended included."""
    from interfaces.terminal.screen import Screen, as_json_text
    from schemas.wire.keys import api_keys

    with _opened(data_dir) as opened:
        found = opened.stored.all()
    screen = Screen()
    if as_json:
        screen.raw(as_json_text(api_keys(found)))
        return
    rows = [_row(each) for each in found]
    screen.table(("ID", "NAME", "SCOPES", "COLLECTIONS", "FILTER", "STATE", "LAST USED"), rows)


@keys.command()
@click.argument("key_id", metavar="ID")
@_data_dir
@config_option
def show(key_id: str, data_dir: Path | None) -> None:
    """Print what a key may do, as JSON."""
    from interfaces.terminal.screen import Screen, as_json_text
    from schemas.wire.keys import api_key

    with _opened(data_dir) as opened:
        Screen().raw(as_json_text(api_key(opened.stored.one(_id(key_id)))))


@keys.command()
@click.argument("key_id", metavar="ID")
@click.option("--grace", metavar="SPAN", default="24h", show_default=True, help="How long the old key still counts.")
@_data_dir
@config_option
@_as_json
def rotate(key_id: str, grace: str, data_dir: Path | None, as_json: bool) -> None:
    """Make a successor with the same rights, print it, and let the old key end after the grace, of 30 days at most.

    A key has one successor: the one to rotate next.

    Exit code: 0, 1 if the successor was made and could not be recorded in the audit log, 2 if none was made.
    """
    from schemas.wire.body import load
    from schemas.wire.keys import ROTATION

    span = span_of(grace)
    if span is None:
        raise click.BadParameter("must be a span like 90s, 12h or 7d", param_hint="'--grace'")
    load(ROTATION, {"grace_seconds": span // timedelta(seconds=1)})
    with _opened(data_dir) as opened:
        opened.make("keys rotate", lambda stored: stored.rotate(_id(key_id), grace=span), _id(key_id), as_json=as_json)


@keys.command()
@click.argument("key_id", metavar="ID")
@_data_dir
@config_option
@_as_json
def revoke(key_id: str, data_dir: Path | None, as_json: bool) -> None:
    """End a key. It stays in the list. A running service refuses it within two seconds, and to administer at once.

    A key is revoked also when that cannot be recorded in the audit log, which then is a warning.
    """
    from interfaces.terminal.screen import Screen, as_json_text
    from schemas.wire.keys import revoked_key

    with _opened(data_dir) as opened:
        key = opened.stored.revoke(_id(key_id), keeps_admin=_relies_on_keys())
        try:
            opened.log.record("keys revoke", key.id)
        except AuditUnwritableError as error:
            click.echo(f"Warning: that the key is revoked is not recorded. {error.message}", err=True)
    if as_json:
        Screen().raw(as_json_text(revoked_key(key)))
        return
    click.echo(f"Key {key.id} ({key.name}) is revoked.", err=True)


def ends_at(text: str, now: datetime) -> str:
    """Return the time that is meant by a span from now or by a time itself."""
    span = span_of(text)
    if span is None:
        return text
    try:
        return (now + span).isoformat()
    except OverflowError:
        raise click.BadParameter("is after the year 9999", param_hint="'--expires'") from None


@dataclass(frozen=True)
class _Opened:
    """The keys of a data directory, and its audit log."""

    stored: StoredKeys
    log: CommandLog

    def make(
        self, what: str, made: Callable[[StoredKeys], tuple[ApiKey, str]], *predecessors: str, as_json: bool
    ) -> None:
        """Show the key that `made` makes, and record it.

        It is shown first, because it cannot be shown again. Raises AuditUnwritableError, and makes none, when there is
        no room to record it.
        """
        self.log.check()
        key, text = made(self.stored)
        try:
            _show_new(key, text, as_json=as_json)
        finally:
            try:
                self.log.record(what, *predecessors, key.id)
            except AuditUnwritableError as error:
                raise click.ClickException(f"Key {key.id} counts, but is not recorded. {error.message}") from error


@contextmanager
def _opened(data_dir: Path | None, *, makes: bool = False) -> Iterator[_Opened]:
    """Give the keys of the data directory, which with `makes` need not be there."""
    from schemas.settings import read_wrapper_settings
    from wrapper.access.directory_keys import open_keys
    from wrapper.catalogue_presence import has_catalogue

    log_to_stderr(logging.WARNING)
    settings = read_wrapper_settings()
    if data_dir is not None:
        settings = replace(settings, data_dir=data_dir.resolve())
    was_there, is_new = settings.data_dir.is_dir(), not has_catalogue(settings)
    with recorded_commands(settings) as log, open_keys(settings, makes=makes) as stored:
        if is_new:
            sentence = f"No data was in {settings.data_dir}: it is a new data directory now."
            if was_there:
                sentence = f"{settings.data_dir} had no catalogue: it has a new one now."
            click.echo(sentence, err=True)
        yield _Opened(stored, log)


def _relies_on_keys() -> bool:
    """Return whether only stored keys let anybody in once there is one.

    The key in this environment may be a stored one, which commands send, and is no other way in then.
    """
    from schemas.access.api_keys import id_of
    from schemas.settings import read_access_settings, read_oidc_settings
    from wrapper.access.configured_key import configured_key, relies_on_keys

    access = read_access_settings()
    if id_of(configured_key(access)[0]) is not None:
        access = replace(access, api_key="", api_key_file="")
    return relies_on_keys(access, has_users=read_oidc_settings().has_users)


def _show_new(key: ApiKey, text: str, *, as_json: bool) -> None:
    from interfaces.terminal.screen import Screen, as_json_text
    from schemas.wire.keys import new_key

    if as_json:
        Screen().raw(as_json_text(new_key(key, text)))
        return
    click.echo(text)
    click.echo(f"This is key {key.id} ({key.name}). It is not shown again.", err=True)


def _row(key: ApiKey) -> tuple[str, ...]:
    from schemas.wire.keys import scopes, time

    grant = key.grant
    return (
        key.id,
        key.name,
        ",".join(scopes(grant.scopes)),
        "*" if grant.collections is None else ",".join(grant.collections),
        "" if grant.where is None else json.dumps(grant.where),
        _state(key, datetime.now(UTC)),
        (time(key.last_used_at) or "never")[:16],
    )


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if key.expires_at is None:
        return "counts"
    return f"{'expired' if key.has_ended(now) else 'until'} {key.expires_at:%Y-%m-%d %H:%M}"


def _id(given: str) -> str:
    """Return the id of a key that is given by its id, with `rw_` before it or without. The key itself is refused, since
    commands end up in the history of the shell."""
    if given.count("_") >= 2 and given.startswith("rw_"):
        raise InvalidInputError("Give the id of the key and not the key itself", code="invalid_field", field="ID")
    return given.removeprefix("rw_")


def _limits(given: Sequence[str]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for each in given:
        name, _, number = map(str.strip, each.partition("="))
        try:
            value = int(number) if number.isdecimal() else float(number)
        except ValueError:
            raise click.BadParameter(f"must be NAME=NUMBER, and not '{each}'", param_hint="'--limit'") from None
        if name in found:
            raise click.BadParameter(f"gives {name} twice", param_hint="'--limit'")
        found[name] = value
    return found
