"""The work of `rag-wrapper watch`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import click
from rich.progress import TaskID

from interfaces.commands.options import documents_progress, log_to_stderr, printable
from interfaces.commands.work.loading import configured_embedding
from interfaces.service_address import network_to
from interfaces.service_key import service_key
from providers.base import ProviderContext
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import ONCE
from providers.rag_wrapper.provider import RagWrapperProvider
from retrieval.ingest.bounds import MAX_NAMED
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader, ReadingLimits
from retrieval.watching.events import file_events, is_ignored, settled
from retrieval.watching.folder import Folder
from retrieval.watching.reporting import Reporter
from retrieval.watching.syncing import FolderSync
from retrieval.watching.watcher import Watcher
from schemas.configuration import tidied
from schemas.contracts.watchers import MAX_NAME_CHARACTERS, WatcherReport, is_watcher_name
from schemas.names import check_collection_name
from schemas.plurals import counted
from schemas.settings import read_retrieval_settings
from schemas.wire.watchers import report_body

REPORT_TIMEOUT_SECONDS = 10.0
SIGNAL_SECONDS = 0.5
"""The longest time until a signal is noticed."""

Told = Callable[[str, WatcherReport], None]


def watch(
    ctx: click.Context,
    folders: tuple[Path, ...],
    name: str | None,
    collection: str | None,
    debounce_seconds: float,
    max_file_mb: int,
    max_file_kb: int | None,
    allow_empty: bool,
    shared: bool,
    once: bool,
    url: str,
) -> None:
    """Watch the folders until SIGTERM or SIGINT, or go through them `once`. The options are those of the command."""
    names = _names(folders, name)
    settings = read_retrieval_settings()
    target = check_collection_name(collection or settings.documents_collection)
    former = settings.context_collection  # where releases before 0.3 stored watched folders
    max_file_bytes = max_file_mb * 1024 * 1024 if max_file_kb is None else max_file_kb * 1024
    level = logging.ERROR if once else logging.WARNING if sys.stderr.isatty() else logging.INFO
    log_to_stderr(level)
    stop = threading.Event()
    instance = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        network = network_to(url)
        key = service_key(url, network)
        config = tidied({"url": url, "api_key": key})
        provider = stack.enter_context(RagWrapperProvider(config, ProviderContext(network=network), place=url))
        service = stack.enter_context(
            closing(WrapperClient.at(url, key, network=network, timeout_seconds=REPORT_TIMEOUT_SECONDS, retry=ONCE))
        )
        embedding = stack.enter_context(configured_embedding())
        reader = stack.enter_context(DocumentReader(ReadingLimits.of(settings)))
        told = stack.enter_context(_progress())

        def former_writer() -> CollectionWriter:
            return CollectionWriter(provider, former, lambda info: embedding)

        open_former = former_writer if collection is None and former != target else None

        def watcher(root: Path, called: str) -> Watcher:
            def send(report: WatcherReport) -> None:
                service.report_watcher(called, report_body(report))

            return Watcher(
                FolderSync(
                    Folder(root, called, is_ignored=is_ignored, max_file_bytes=max_file_bytes),
                    lambda: CollectionWriter(provider, target, lambda info: embedding),
                    reader=reader,
                    chunking=chunking_of(settings, embedding),
                    open_former=open_former,
                    may_be_empty=allow_empty,
                ),
                Reporter(send, on_refused=stop.set),
                instance=instance,
                collection=target,
                shared=shared,
                stop=stop,
                told=partial(told, called),
            )

        watchers = [watcher(root, called) for root, called in zip(folders, names, strict=True)]
        _stop_by_signal(stop)
        if once:
            _end(ctx, [(each.sync.folder.name, each.run_once()) for each in watchers], watchers)
        _run_all(watchers, debounce_seconds, stop)


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
    """Have the first signal end the work after the current document, and a second one end the process."""

    def end(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _run_all(watchers: Sequence[Watcher], debounce_seconds: float, stop: threading.Event) -> None:
    """Run each watcher in a thread of its own. When one cannot go on, end all of them and raise its error."""
    failures: list[BaseException] = []

    def run(watcher: Watcher) -> None:
        try:
            watcher.run(
                lambda folders: settled(file_events(watcher.sync.folder, folders, stop), quiet_seconds=debounce_seconds)
            )
        except BaseException as error:
            failures.append(error)
        finally:
            stop.set()

    threads = [threading.Thread(target=run, args=(each,), name=each.sync.folder.name) for each in watchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # The system may hand a signal to any thread, but Python runs its handler in this one, once it wakes up.
            thread.join(SIGNAL_SECONDS)
    if failures:
        raise failures[0]


def _end(ctx: click.Context, done: Sequence[tuple[str, WatcherReport]], watchers: Sequence[Watcher]) -> None:
    for name, report in done:
        click.echo(summary(name, report))
    for each in watchers:
        for path, reason in sorted(each.sync.passed_over.items())[:MAX_NAMED]:
            click.echo(printable(f"passed over: {each.sync.folder.name}/{path}: {reason}"), err=True)
        if len(each.sync.passed_over) > MAX_NAMED:
            click.echo(f"… and {len(each.sync.passed_over) - MAX_NAMED} more", err=True)
    failed = [(each.sync.folder.name, *fault) for each in watchers for fault in sorted(each.sync.failed.items())]
    for name, path, reason in failed:
        click.echo(printable(f"{name}/{path}: {reason}"), err=True)
    ctx.exit(1 if failed or any(report.pending for _, report in done) else 0)


def summary(name: str, report: WatcherReport) -> str:
    """Return a line that says what was done."""
    deeds = [f"{count} {word}" for word in ("indexed", "deleted", "failed") if (count := getattr(report, word))]
    passed_over = f", {report.skipped} passed over" if report.skipped else ""
    return f"{name}: {counted(report.files, 'file')}: {', '.join(deeds) or 'nothing changed'}{passed_over}"


@contextmanager
def _progress() -> Iterator[Told]:
    """Give a callback that shows a bar for each folder while files of it are pending, on a terminal only."""
    with documents_progress() as progress:
        tasks: dict[str, TaskID] = {}

        def tell(name: str, report: WatcherReport) -> None:
            task = tasks[name] if name in tasks else tasks.setdefault(name, progress.add_task(name, total=None))
            total = max(report.files, report.pending)
            progress.update(
                task, completed=total - report.pending, total=total or 1, description=f"{name}: {report.state}"
            )

        yield tell
