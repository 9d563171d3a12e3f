"""`rag-wrapper backup` and `restore`: everything a service keeps in one file, and back."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from interfaces.commands.options import (
    config_option,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    settings_of,
)

if TYPE_CHECKING:
    from schemas.settings import WrapperSettings
    from schemas.settings.backup_times import BackupTimes
    from wrapper.backups.manifest import Head

ENDING = ".ragbackup"
AGAIN_SECONDS = 600.0
LOOK_SECONDS = 60.0
POSTGRESQL = "postgresql"

_key_file = click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the key of the backup: 32 bytes in base64, as 'openssl rand -base64 32' prints them.  "
    "[default: $RAG_BACKUP_KEY or $RAG_BACKUP_KEY_FILE]",
)


def _times(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> BackupTimes | None:
    from schemas.settings.backup_times import BackupTimes

    try:
        return None if text is None else BackupTimes.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("target", metavar="DIR|FILE", type=click.Path(path_type=Path))
@click.option(
    "--keep", type=click.IntRange(min=1), help="Remove all but the newest so many of this catalogue from DIR."
)
@click.option(
    "--schedule",
    "times",
    metavar="EVERY",
    callback=_times,
    help="Stay, and make one every so often (30m, 24h, 7d) or daily at a time in UTC (03:30).",
)
@_key_file
@data_dir_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each backup and nothing else.")
def backup(
    target: Path,
    keep: int | None,
    times: BackupTimes | None,
    key_file: Path | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Back up the catalogue, originals, waiting uploads, the audit log and the key of stored secrets, in one file.

    The service may run meanwhile; the backup shows one moment. It is read back and tried before it gets its name. DIR
    is made if it is not there; a name that ends in .ragbackup is a FILE. Without a key the file is not encrypted, and
    holds secret.key.

    Exit code: 0, or 2 if no backup was made.
    """
    is_file = target.suffix == ENDING and not target.is_dir()
    if is_file and (keep is not None or times is not None):
        raise click.UsageError("--keep and --schedule want a DIR.")
    settings, key = _settings(data_dir, key_file)

    def make_one() -> None:
        made, file = _make(settings, target.absolute(), key, keep, is_file=is_file, scheduled=times is not None)
        _show(made, file, as_json=as_json)

    if times is None:
        make_one()
    else:
        _stay(make_one, times, target, settings.data_dir)


def _settings(data_dir: Path | None, key_file: Path | None) -> tuple[WrapperSettings, bytes | None]:
    """Return the settings, and the key of the option or of these; warn on stderr when others can read its file."""
    from wrapper.backups.keys import FILE, backup_key, key_of_file, key_warnings

    log_to_stderr(logging.ERROR)
    settings = settings_of(data_dir)
    file, named = (settings.backup_key_file, FILE) if key_file is None else (key_file, "--key-file")
    key = backup_key(settings) if key_file is None else key_of_file(key_file, named)
    for sentence in key_warnings(file, named):
        click.echo(f"Warning: {sentence}.", err=True)
    return settings, key


def _make(
    settings: WrapperSettings, target: Path, key: bytes | None, keep: int | None, *, is_file: bool, scheduled: bool
) -> tuple[Head, Path]:
    from wrapper.backups.making import opened_maker
    from wrapper.backups.manifest import Reason
    from wrapper.backups.places import ready_folder
    from wrapper.backups.shelf import Shelf

    named = "FILE" if is_file else "DIR"
    with opened_maker(settings, key, named) as maker:
        ready_folder(target.parent if is_file else target, settings.data_dir, named)
        reason = Reason.SCHEDULE if scheduled else Reason.ASKED
        file = target if is_file else maker.new_target(target, reason)
        head = maker.make(file, reason)
        if keep is not None:
            Shelf(target).prune(head, keep)
    _record(settings, "backup", head.id)
    return head, file


def _record(settings: WrapperSettings, command: str, backup_id: str) -> None:
    """Record a command in the audit log. It was carried out, so that it cannot be recorded is a warning."""
    from interfaces.commands.access.recorded import record, recorded_commands
    from schemas.errors import AuditUnwritableError, ConfigurationError
    from wrapper.backups.making import check_no_moves

    try:
        check_no_moves(settings.data_dir)
        with recorded_commands(settings) as log:
            record(log, command, backup_id)
    except (AuditUnwritableError, ConfigurationError) as error:
        click.echo(f"Warning: the {command} is not recorded. {error.message}", err=True)


def _stay(make_one: Callable[[], None], times: BackupTimes, folder: Path, data_dir: Path) -> NoReturn:
    from schemas.errors import RagError
    from wrapper.backups.files import home_of
    from wrapper.backups.places import unwritable
    from wrapper.backups.shelf import Shelf
    from wrapper.catalogue_mark import marked

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    waiting = threading.Event()
    while True:
        now = datetime.now(UTC)
        try:
            last = Shelf(folder).last_good_at(marked(data_dir), home_of(data_dir), now)
            left_seconds = (times.due_at(last, now) - now).total_seconds()
            if left_seconds > 0:
                waiting.wait(min(left_seconds, LOOK_SECONDS))
                continue
            make_one()
        except (RagError, OSError) as error:
            message = error.message if isinstance(error, RagError) else unwritable(error, "DIR").message
            click.echo(f"Error: {message}. Tried again in {AGAIN_SECONDS / 60:.0f} minutes", err=True)
            waiting.wait(AGAIN_SECONDS)


def _show(head: Head, file: Path, *, as_json: bool) -> None:
    size = file.stat().st_size
    if as_json:
        print_json(_spelled(head, size) | {"file": str(file)})
        return
    click.echo(str(file))
    click.echo(f"Backed up and verified: {_counts(head)}; {size / 2**20:,.1f} MB.", err=True)
    for sentence in _not_in_it(head):
        click.echo(sentence, err=True)
    if not head.encrypted:
        click.echo("It is not encrypted: keep it as safe as the data directory, or give a key (--key-file).", err=True)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--replace", is_flag=True, help="Move what is there aside, into a folder 'replaced-…', instead of refusing."
)
@click.option(
    "--unencrypted", is_flag=True, help="Take a backup that is not encrypted although there is a key for backups."
)
@_key_file
@data_dir_option
@config_option
@json_option
def restore(
    file: Path, replace: bool, unencrypted: bool, key_file: Path | None, data_dir: Path | None, as_json: bool
) -> None:
    """Restore a backup into an empty data directory, and on PostgreSQL into an empty database (RAG_CATALOG_URL).

    Nothing is changed before all of the backup was read and checked. The service must be stopped. Its next start brings
    the catalogue up to date where the backup is of an older release, and builds the index anew.

    Exit code: 0, or 2 if nothing was restored.
    """
    from wrapper.backups.restoring import restore as restored_from

    settings, key = _settings(data_dir, key_file)
    with file.open("rb") as opened:
        done = restored_from(opened, settings, key, replace=replace, unencrypted=unencrypted)
    _record(settings, "restore", done.head.id)
    aside = None if done.aside is None else str(done.aside)
    if as_json:
        more = {"aside": aside, "aside_schema": done.aside_schema, "warnings": _not_in_it(done.head)}
        print_json(_spelled(done.head, file.stat().st_size) | more)
        return
    made_by = f"made by release {done.head.release} on {done.head.created_at:%Y-%m-%d at %H:%M:%S} UTC"
    click.echo(f"Restored {done.head.id}, {made_by}: {_counts(done.head)}.")
    for where in filter(None, (aside, done.aside_schema and f"the schema {done.aside_schema}")):
        click.echo(f"What was there before is in {where}.")
    for sentence in _not_in_it(done.head):
        click.echo(sentence)


def _spelled(head: Head, size: int) -> dict[str, Any]:
    from schemas.wire.storage.backups import backup as spelled
    from wrapper.backups.service_backups import told_of

    return spelled(told_of(head, size))


def _not_in_it(head: Head) -> list[str]:
    """Say what belongs to the catalogue of a backup and is not in it."""
    if not head.whole:
        return [
            "It is the catalogue alone: originals, waiting uploads, the audit log and secret.key are those of the data "
            "directory. Secrets typed into connections need the key of that time: 'rag-wrapper secrets list' tells "
            "which have it; the others have to be given again."
        ]
    if head.kind != POSTGRESQL:
        return []
    originals = head.counts.get("originals", 0)
    return [
        f"Of files it has those of one data directory, {originals:,} originals among them: other services on the "
        "database need backups of their own."
    ]


def _counts(head: Head) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in head.counts.items())
