"""The work of `rag-wrapper watch`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import click

from interfaces.commands.options import log_to_stderr, show_lines
from interfaces.commands.work.folder_watch import StoppedError, Watch
from interfaces.commands.work.uploading import PASSED_OVER, clients_at
from schemas.contracts.jobs import FAILED
from schemas.contracts.watchers import MAX_NAME_CHARACTERS, is_watcher_name
from schemas.names import check_collection_name
from schemas.plurals import counted

SIGNAL_SECONDS = 0.5
"""The longest time until a signal is noticed."""


def watch_folders(
    ctx: click.Context,
    folders: tuple[Path, ...],
    name: str | None,
    collection: str | None,
    debounce_seconds: float,
    allow_empty: bool,
    shared: bool,
    once: bool,
    url: str,
) -> None:
    """Watch the folders until SIGTERM or SIGINT, or go through them `once`. The options are those of the command."""
    names = _names(folders, name)
    if collection is not None:
        check_collection_name(collection)
    log_to_stderr(logging.ERROR if once else logging.WARNING if sys.stderr.isatty() else logging.INFO)
    stop = threading.Event()
    with clients_at(url) as clients:

        def watch_of(root: Path, called: str) -> Watch:
            return Watch(
                *(root, called, clients),
                collection=collection,
                shared=shared,
                may_be_empty=allow_empty,
                stop=stop,
            )

        watches = [watch_of(root, called) for root, called in zip(folders, names, strict=True)]
        _stop_by_signal(stop)
        if once:
            _run_once(ctx, watches)
        _run_all(watches, debounce_seconds, stop)


def summary(watch: Watch) -> str:
    """Return a line that says what was done."""
    counts = {"indexed": watch.indexed, "deleted": watch.deleted, "failed": watch.report.failed}
    deeds = [f"{count} {word}" for word, count in counts.items() if count]
    passed_over = f", {count} passed over" if (count := len(watch.reasons(PASSED_OVER))) else ""
    return f"{watch.name}: {counted(watch.report.files, 'file')}: {', '.join(deeds) or 'nothing changed'}{passed_over}"


def _run_once(ctx: click.Context, watches: Sequence[Watch]) -> None:
    for each in watches:
        try:
            each.begin()
            each.round()
        except StoppedError:
            raise KeyboardInterrupt from None
        finally:
            each.end()
        click.echo(summary(each))
        show_lines([f"passed over: {name}: {reason}" for name, reason in each.reasons(PASSED_OVER).items()])
        show_lines([f"{name}: {reason}" for name, reason in each.reasons(FAILED).items()])
    ctx.exit(1 if any(each.reasons(FAILED) for each in watches) else 0)


def _run_all(watches: Sequence[Watch], quiet_seconds: float, stop: threading.Event) -> None:
    """Run each watch in a thread of its own. When one cannot go on, end all of them and raise its error."""
    failures: list[BaseException] = []

    def run(each: Watch) -> None:
        try:
            each.run(quiet_seconds)
        except BaseException as error:
            failures.append(error)
        finally:
            stop.set()
            each.end()

    threads = [threading.Thread(target=run, args=(each,), name=each.name) for each in watches]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # The system may hand a signal to any thread, but Python runs its handler in this one, once it wakes up.
            thread.join(SIGNAL_SECONDS)
    if failures:
        raise failures[0]


def _names(folders: Sequence[Path], name: str | None) -> list[str]:
    if name is not None and len(folders) > 1:
        raise click.UsageError("--name is for one folder only.")
    names = [name or folder.resolve().name for folder in folders]
    for each in names:
        if not is_watcher_name(each):
            raise click.UsageError(
                f"A folder cannot be called {each!r}: 1 to {MAX_NAME_CHARACTERS} printable characters without '/'."
            )
        if names.count(each) > 1:
            raise click.UsageError(f"Two folders are called '{each}': watch one of them with --name of its own.")
    return names


def _stop_by_signal(stop: threading.Event) -> None:
    """Have the first signal end the work soon, and a second one end the process."""

    def end(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
