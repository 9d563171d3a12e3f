"""`rag-wrapper audit`: who did what and when, from the files of a data directory or from a service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from interfaces.asked_service import service_to_ask
from interfaces.commands.options import config_option, json_option, print_json

SHOWN = 100


@click.command()
@click.option(
    "--since", metavar="WHEN", help="Only entries from this time on: 2026-11-22T08:30:00Z, 7d, 12h or 30m ago."
)
@click.option("--key", metavar="ID", help="Only entries by or about the key, or the user, with this id.")
@click.option("--collection", metavar="NAME", help="Only entries about this collection.")
@click.option("--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="The most entries.")
@click.option("--url", metavar="URL", help="Ask the service there, which gives up to 1000 entries.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Read the log of this data directory, whether a service runs there or not.  [default: $RAG_DATA_DIR]",
)
@config_option
@json_option
def audit(url: str | None, data_dir: Path | None, as_json: bool, **asked: Any) -> None:
    """Show who did what and when, the newest first: time, key or user, status, method, route with tool or subject,
    collection, number of documents, address.

    In a pipe the columns are separated by tabs and have no header. --json prints the answer of GET /api/audit.

    Exit code: 0, or 2 if the log could not be read.
    """
    if url is not None and data_dir is not None:
        raise click.UsageError("Give --url or --data-dir, not both.")
    from interfaces.terminal.screen import Screen

    if url is not None:
        with service_to_ask(url) as service:
            answer: dict[str, Any] = service.call("GET", "/api/audit", params=asked)
            rows = [_row(each) for each in answer["entries"]]
    else:
        answer = _read(data_dir, **asked)
        rows = [_row(each) for each in answer["entries"]]
    if as_json:
        print_json(answer)
        return
    Screen().table(("TIME", "WHO", "STATUS", "METHOD", "ROUTE", "COLLECTION", "COUNT", "ADDRESS"), rows, right=(6,))
    for each in answer.get("warnings", ()):
        click.echo(each, err=True)


def _read(
    data_dir: Path | None, since: str | None, key: str | None, collection: str | None, limit: int
) -> dict[str, Any]:
    """Return the answer that a service would give from the files."""
    from datetime import UTC, datetime

    from schemas.errors import ConfigurationError
    from schemas.settings import read_wrapper_settings
    from schemas.storage.audit import AuditQuery
    from schemas.wire.storage.audit import audit_answer, since_of
    from wrapper.audit.opening import audit_folder
    from wrapper.audit.reading import newest_page

    folder = audit_folder(data_dir or read_wrapper_settings().data_dir)
    if not folder.is_dir():
        raise ConfigurationError(f"No audit log is in {folder.parent}: name a data directory, or a service by --url")
    when = None if since is None else since_of(since, datetime.now(UTC))
    page = newest_page(folder, AuditQuery(when, key, collection), limit)
    warnings = [f"{page.skipped} lines of the audit log cannot be read"] if page.skipped else []
    return {**audit_answer(page.entries), **({"warnings": warnings} if warnings else {})}


def _row(entry: dict[str, Any]) -> tuple[object, ...]:
    count = "" if entry["count"] is None else entry["count"]
    return (
        entry["time"],
        entry["user"] or entry["key_id"],
        f"{entry['status']} (x{entry['repeated']})" if entry.get("repeated") else entry["status"],
        entry["method"],
        " ".join(filter(None, (entry["route"], entry.get("tool"), entry.get("subject")))),
        entry["collection"],
        f"{count} (cut)" if entry.get("cut") else count,
        entry["address"],
    )
