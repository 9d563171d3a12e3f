"""`rag-wrapper keys`: make, list, change and end API keys, on the data directory, beside a running service or without
one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interfaces.commands.access.recorded import record, recorded_commands
from interfaces.commands.options import (
    JsonObject,
    config_option,
    data_dir_option,
    json_option,
    log_to_stderr,
    named_numbers,
    print_json,
    settings_of,
)
from schemas.access.callers import Scope
from schemas.access.time_spans import span_of
from schemas.errors import AuditUnwritableError, InvalidInputError

if TYPE_CHECKING:
    from schemas.access.api_keys import ApiKey
    from wrapper.access.stored_keys import StoredKeys
    from wrapper.audit.audit_log import AuditLog


def _ends_at(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Return the time that is meant by a span from now or by a time itself."""
    span = None if text is None else span_of(text)
    if span is None:
        return text
    try:
        return (datetime.now(UTC) + span).isoformat()
    except OverflowError:
        raise click.BadParameter("is after the year 9999") from None


def _id(_ctx: click.Context, _parameter: click.Parameter, given: str) -> str:
    """Return the id of a key that is given by its id, with `rw_` before it or without. The key itself is refused, since
    commands end up in the history of the shell."""
    if given.count("_") >= 2 and given.startswith("rw_"):
        raise InvalidInputError("Give the id of the key and not the key itself", code="invalid_field", field="ID")
    return given.removeprefix("rw_")


_key_id = click.argument("key_id", metavar="ID", callback=_id)


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
    "expires_at",
    metavar="TIME",
    callback=_ends_at,
    help="When it ends: a time with its zone, like 2027-01-31T12:00:00Z, or a span like 12h, 30d, 8w.  "
    "[default: never]",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=named_numbers,
    help="A limit, each at most once: requests_per_second, burst (with it), concurrent, documents, bytes, "
    "embedded_tokens_per_day, chats_per_day.",
)
@data_dir_option
@config_option
@json_option
def create(data_dir: Path | None, as_json: bool, **asked: Any) -> None:
    """Make a key, and print it. It is shown this once, and nobody can look it up later.

    Exit code: 0, 1 if the key was made and could not be recorded in the audit log, 2 if none was made.
    """
    from schemas.wire.body import load
    from schemas.wire.keys import NEW_KEY

    lists = {"scopes": list(asked["scopes"]), "collections": list(asked["collections"]) or None}
    given = {**asked, **lists, "limits": asked["limits"] or None}
    wanted = load(NEW_KEY, {name: each for name, each in given.items() if each is not None})
    with _opened(data_dir, makes=True) as (stored, log):
        keeps_admin = _relies_on_keys()
        _make(log, "keys create", lambda: stored.create(**wanted, keeps_admin=keeps_admin), as_json=as_json)


@keys.command("list")
@data_dir_option
@config_option
@json_option
def list_keys(data_dir: Path | None, as_json: bool) -> None:
    """List all keys, those that have ended included."""
    from interfaces.terminal.screen import Screen
    from schemas.wire.keys import api_keys

    with _opened(data_dir) as (stored, _):
        found = stored.all()
    if as_json:
        print_json(api_keys(found))
        return
    rows = [_row(each) for each in found]
    Screen().table(("ID", "NAME", "SCOPES", "COLLECTIONS", "FILTER", "STATE", "LAST USED"), rows)


@keys.command()
@_key_id
@data_dir_option
@config_option
def show(key_id: str, data_dir: Path | None) -> None:
    """Print what a key may do, as JSON."""
    from schemas.wire.keys import api_key

    with _opened(data_dir) as (stored, _):
        print_json(api_key(stored.one(key_id)))


@keys.command()
@_key_id
@click.option("--grace", metavar="SPAN", default="24h", show_default=True, help="How long the old key still counts.")
@data_dir_option
@config_option
@json_option
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
    with _opened(data_dir) as (stored, log):
        _make(log, "keys rotate", lambda: stored.rotate(key_id, grace=span), key_id, as_json=as_json)


@keys.command()
@_key_id
@data_dir_option
@config_option
@json_option
def revoke(key_id: str, data_dir: Path | None, as_json: bool) -> None:
    """End a key. It stays in the list. A running service refuses it within two seconds, and to administer at once.

    A key is revoked also when that cannot be recorded in the audit log, which then is a warning.
    """
    from schemas.wire.keys import revoked_key

    with _opened(data_dir) as (stored, log):
        key = stored.revoke(key_id, keeps_admin=_relies_on_keys())
        try:
            record(log, "keys revoke", key.id)
        except AuditUnwritableError as error:
            click.echo(f"Warning: that the key is revoked is not recorded. {error.message}", err=True)
    if as_json:
        print_json(revoked_key(key))
    else:
        click.echo(f"Key {key.id} ({key.name}) is revoked.", err=True)


def _make(log: AuditLog, what: str, make: Callable[[], tuple[ApiKey, str]], *predecessors: str, as_json: bool) -> None:
    """Make a key, show and record it.

    It is shown first, because it cannot be shown again. Raises AuditUnwritableError, and makes none, when there is no
    room to record it.
    """
    from schemas.wire.keys import new_key

    log.check()
    key, text = make()
    try:
        if as_json:
            print_json(new_key(key, text))
        else:
            click.echo(text)
            click.echo(f"This is key {key.id} ({key.name}). It is not shown again.", err=True)
    finally:
        try:
            record(log, what, *predecessors, key.id)
        except AuditUnwritableError as error:
            raise click.ClickException(f"Key {key.id} counts, but is not recorded. {error.message}") from error


@contextmanager
def _opened(data_dir: Path | None, *, makes: bool = False) -> Iterator[tuple[StoredKeys, AuditLog]]:
    """Give the keys of the data directory, which with `makes` need not be there, and its audit log."""
    from wrapper.access.directory_keys import open_keys
    from wrapper.catalogue_presence import has_catalogue

    log_to_stderr(logging.WARNING)
    settings = settings_of(data_dir)
    was_there, is_new = settings.data_dir.is_dir(), not has_catalogue(settings)
    with recorded_commands(settings) as log, open_keys(settings, makes=makes) as stored:
        if is_new and was_there:
            click.echo(f"{settings.data_dir} had no catalogue: it has a new one now.", err=True)
        elif is_new:
            click.echo(f"No data was in {settings.data_dir}: it is a new data directory now.", err=True)
        yield stored, log


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


def _row(key: ApiKey) -> tuple[str, ...]:
    from schemas.wire.keys import scopes, time

    grant, state = key.grant, "counts"
    if key.revoked_at is not None:
        state = f"revoked {key.revoked_at:%Y-%m-%d}"
    elif key.expires_at is not None:
        state = f"{'expired' if key.has_ended(datetime.now(UTC)) else 'until'} {key.expires_at:%Y-%m-%d %H:%M}"
    return (
        key.id,
        key.name,
        ",".join(scopes(grant.scopes)),
        "*" if grant.collections is None else ",".join(grant.collections),
        "" if grant.where is None else json.dumps(grant.where),
        state,
        (time(key.last_used_at) or "never")[:16],
    )
