"""`rag-wrapper secrets`: which secrets people have typed into connections, and a new key for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from interfaces.commands.access.recorded import record, recorded_commands
from interfaces.commands.options import config_option, json_option, log_to_stderr, print_json
from schemas.plurals import counted

if TYPE_CHECKING:
    from registry.stored_connections import StoredConnections
    from registry.typed_secrets.sealing import Seal
    from wrapper.audit.audit_log import AuditLog
    from wrapper.secret_key import KeyFile

UNOPENED = 1
"""The exit code when there are secrets that no key of this service opens."""


@click.group("secrets")
def stored_secrets() -> None:
    """The secrets that people typed into connections, which are stored encrypted.

    The commands work on the data directory (RAG_DATA_DIR) and its catalogue, whether the service runs or not.
    """


@stored_secrets.command("list")
@config_option
@json_option
@click.pass_context
def list_secrets(ctx: click.Context, as_json: bool) -> None:
    """List which connections have which stored secrets, and whether the key fits. Secrets are never shown.

    In each line: connection, field, and "stored" or "stored under another key", separated by tabs.

    Exit code: 0, 1 if the key does not fit a secret, 2 if they could not be listed.
    """
    from registry.typed_secrets.rotation import typed_secrets_of

    with _opened() as (stored, seal, _, _):
        found = list(typed_secrets_of(stored, seal))
    if as_json:
        listed = [{"connection": each.connection, "field": each.field, "opens": each.opens} for each in found]
        print_json({"secrets": listed})
    else:
        for each in found:
            click.echo(f"{each.connection}\t{each.field}\t{'stored' if each.opens else 'stored under another key'}")
    ctx.exit(0 if all(each.opens for each in found) else UNOPENED)


@stored_secrets.command()
@config_option
@click.pass_context
def rotate(ctx: click.Context) -> None:
    """Encrypt all stored secrets under a new key, and drop the old key.

    The service may run meanwhile: it goes on without a pause and reads the new key by itself. A command that was
    killed has lost nothing; run it again. Where RAG_SECRET_KEY is set, put a new key in front of it, start the service
    again, run this command with the same setting, and then take the old key out.

    Exit code: 0, 1 if no key fits some secrets, which stay as they are, 2 if it did not get through.
    """
    from registry.typed_secrets.rotation import seal_again

    with _opened() as (stored, seal, file, log), nullcontext() if file is None else file.rotating():
        if file is not None and not file.add():
            click.echo("Going on with the new key that an earlier rotation has made.", err=True)
        done = seal_again(stored, seal)
        if file is not None:
            file.drop_old()
        record(log, "secrets rotate")
    for connection, field in done.left:
        click.echo(f"{connection}: {field} is stored under another key and was left as it is", err=True)
    secrets = counted(done.secrets, "secret")
    if file is None:
        click.echo(f"{secrets} encrypted under the first key of RAG_SECRET_KEY; the others are not needed any more")
    else:
        click.echo(f"{secrets} encrypted under a new key, which is in {file.path}; the old key is gone")
    ctx.exit(UNOPENED if done.left else 0)


@contextmanager
def _opened() -> Iterator[tuple[StoredConnections, Seal, KeyFile | None, AuditLog]]:
    """Give what is stored, what opens it, the file of the keys, None where the settings have these, and the log."""
    from registry.stored_connections import StoredConnections
    from registry.typed_secrets.sealing import Seal
    from schemas.settings import read_access_settings, read_wrapper_settings
    from wrapper.host import opened_catalogue
    from wrapper.secret_key import KeyFile, secret_keys

    log_to_stderr(logging.WARNING)
    settings, access = read_wrapper_settings(), read_access_settings()
    keys = secret_keys(settings.data_dir, access)
    with opened_catalogue(settings) as catalog, recorded_commands(settings) as log:
        yield StoredConnections(catalog), Seal(keys), keys if isinstance(keys, KeyFile) else None, log
