"""A watched folder: rounds over it, each of which uploads what changed and deletes what is gone."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import structlog
from watchfiles import Change, watch

from interfaces.commands.options import show_lines
from interfaces.commands.work.uploading import CREATED, PASSED_OVER, UPDATED, Uploader, gone_from, stored_documents
from providers.outbound.deadlines import single_attempts
from providers.rag_wrapper.client import WrapperClient
from retrieval.clock import utc_now, z_time
from retrieval.ingest.identity import document_id, file_ids, stored_name
from retrieval.ingest.walk import is_ignored, walk
from retrieval.reading import SECRET, instead_of
from schemas.contracts.jobs import FAILED
from schemas.contracts.watchers import MAX_FAILURES, MAX_TEXT_CHARACTERS, RETRYING, STOPPED, WATCHING
from schemas.errors import ConflictError, RagError, UnavailableError
from schemas.plurals import counted

log = structlog.get_logger(__name__)

FOLDER = "folder"
"""Metadata of watched files: the name of the folder, which says that deleting a file there deletes its document."""
RESCAN_SECONDS = 600.0
"""Seconds after which everything is compared again: the system drops events when there are too many, and a disk of
another machine may send none."""
HEARTBEAT_SECONDS = 10.0
"""Seconds between reports; several fit into the time after which a watcher counts as lost."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
LONGEST_BURST = 10
"""Changes that never end are dealt with after this many times the quiet that would end them."""
SIGNAL_SECONDS = 0.5
"""The longest time until a signal is noticed."""
IS_RUNNING = "watcher_is_running"
DENIED = frozenset({"authentication", "authorization"})
"""The types of errors that say that the service does not know who asks, or does not let them."""


class StoppedError(Exception):
    """The watch was asked to end."""


@dataclass
class Watch:
    """Keeps one folder in sync; for one thread, which ends when `stop` is set."""

    root: Path
    name: str
    client: WrapperClient
    stop: threading.Event
    collection: str | None = None
    shared: bool = False
    may_be_empty: bool = False

    def __post_init__(self) -> None:
        self._root = self.root.resolve()
        self._uploader = Uploader(
            self.client,
            self.collection,
            {FOLDER: self.name},
            tell=lambda done, total, chunks: self._tell(),
            say=lambda sentence: log.warning("waiting", folder=self.name, reason=sentence),
            sleep=self._sleep,
        )
        self._not_stored: dict[str, tuple[str, str]] = {}
        self._folders: list[str] = []
        self._settled: dict[str, tuple[int, ...]] = {}
        self._stored: dict[str, str] = {}
        instance = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._report: dict[str, Any] = {"instance": instance, "state": WATCHING, "shared": self.shared}
        self._report |= {"files": 0, "next": None}
        self._indexed = self._deleted = 0
        self._reported_at = 0.0
        self._has_name = False

    def begin(self) -> None:
        """Find out where files go, and take the name. Raises ConflictError while another instance has it."""
        self._report["collection"] = self._uploader.target()
        self._send()

    def round(self, *, whole: bool = True) -> None:
        """Bring the collection in step with the folder: with all of it, or with what changed since the last round.

        Raises UnavailableError when the folder cannot be listed or is empty and may not be, and what the service
        raises.
        """
        found = walk(self._root)
        files = {self._source(each.path_below): each for each in found.files if not each.kind.is_records}
        self._folders = found.folders
        if whole:
            self._settled.clear()
            stored = stored_documents(self.client, self._report["collection"], {FOLDER: self.name})
            # Documents of others that give the same folder have other ids.
            self._stored = {source: document for document, source in stored.items() if document in file_ids(source)}
        gone = gone_from(found, self._stored, f"{self.name}/")
        if gone and not files and not self.may_be_empty:
            sentence = f"The folder {self._root} has no files to index, but {len(gone)} of it are stored"
            raise UnavailableError(f"{sentence}: nothing is deleted unless an empty folder is allowed")
        differing = {name: each for name, each in files.items() if self._settled.get(name) != each.signature}
        self._tell(files=len(files))
        outcome = self._uploader.bring(differing)
        for name, became in outcome.became.items():
            self._settled[name] = files[name].signature
            if became in (CREATED, UPDATED):
                log.info("indexed", file=name)
            elif became == FAILED and self._not_stored.get(name) != (FAILED, outcome.reasons[name]):
                log.warning("a file is not indexed", file=name, reason=outcome.reasons[name])
            if became not in (FAILED, PASSED_OVER):
                self._stored.setdefault(name, document_id(name))
        named = [each for each in found.passed_over if each.code == SECRET or instead_of(each.path)]
        for each in (*found.errors, *named):
            if self._source(each.path) not in self._not_stored:
                log.warning("a file is not indexed", file=self._source(each.path), reason=each.message)
        for name, warnings in outcome.warnings.items():
            log.warning("a file was read with warnings", file=name, warnings=warnings)
        for source in gone:
            log.info("deleted", file=source)
            self._deleted += self._uploader.delete(self._stored.pop(source), self._report["collection"])
        self._settled = {name: signature for name, signature in self._settled.items() if name in files}
        # Of files that have not changed since, it is as before.
        known = {name: why for name, why in self._not_stored.items() if name in files and name not in outcome.became}
        known |= {name: (outcome.became[name], reason) for name, reason in outcome.reasons.items()}
        known |= {self._source(each.path): (FAILED, each.message) for each in found.errors}
        known |= {self._source(each.path): (PASSED_OVER, each.message) for each in found.passed_over}
        self._not_stored = known
        failed = self._reasons(FAILED)
        self._indexed += outcome.count(CREATED, UPDATED)
        self._report |= {
            "state": WATCHING,
            "stored": len(files.keys() - known.keys()),
            "failed": len(failed),
            "failures": [
                {"path": name.removeprefix(f"{self.name}/")[-MAX_TEXT_CHARACTERS:], "reason": why[:MAX_TEXT_CHARACTERS]}
                for name, why in list(failed.items())[:MAX_FAILURES]
            ],
            "at": _time_in(0),
            "next": _time_in(RESCAN_SECONDS) if whole else self._report["next"],
            "reason": None,
        }
        self._send_now()

    def run(self, quiet_seconds: float) -> None:
        """Keep the collection in step until `stop` is set; what fails is tried again with pauses, and told once.

        Raises ConflictError when another instance has the name, and what the service says when it refuses the first
        report for lack of rights.
        """
        pause_seconds, other_at, has_begun = FIRST_PAUSE_SECONDS, None, False
        while not self.stop.is_set():
            try:
                if not has_begun:
                    self.begin()
                    has_begun = True
                self._follow(quiet_seconds)
            except StoppedError:
                return
            except RagError as error:
                reported_at = error.details.get("reported_at")
                # A killed instance holds the name until it counts as lost; one that reports again is alive.
                if error.code == IS_RUNNING and (has_begun or other_at not in (None, reported_at)):
                    raise
                if not has_begun and error.details.get("error_type") in DENIED:
                    raise
                other_at = reported_at
                reason = error.message[:MAX_TEXT_CHARACTERS]
                if self._report["state"] != RETRYING:
                    pause_seconds = FIRST_PAUSE_SECONDS
                if self._report.get("reason") != reason:
                    log.warning("not in sync, which is tried again", folder=self.name, reason=reason)
                self._report |= {"state": RETRYING, "reason": reason, "next": _time_in(pause_seconds)}
                self._send_now()
                self.stop.wait(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    def end(self) -> None:
        """Send the last report, which frees the name."""
        self._report |= {"state": STOPPED, "next": None}
        with suppress(ConflictError):
            self._send_now()

    def show(self) -> bool:
        """Say what was done, and which files are not stored as they are. Return whether none has failed."""
        failed, passed_over = self._reasons(FAILED), self._reasons(PASSED_OVER)
        counts = {"indexed": self._indexed, "deleted": self._deleted, "failed": len(failed)}
        deeds = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "nothing changed"
        over = f", {len(passed_over)} passed over" if passed_over else ""
        click.echo(f"{self.name}: {counted(self._report['files'], 'file')}: {deeds}{over}")
        show_lines([f"passed over: {name}: {reason}" for name, reason in passed_over.items()])
        show_lines([f"{name}: {reason}" for name, reason in failed.items()])
        return not failed

    def _follow(self, quiet_seconds: float) -> None:
        """Deal with all of the folder, and then with its changes, until all of it is due again."""
        whole, due = True, 0.0
        while whole or time.monotonic() < due:
            self._folders = walk(self._root).folders
            with closing(self._changes(quiet_seconds)) as changes:
                try:
                    next(changes, None)  # from now on the system listens, so that no change is missed
                except (OSError, RuntimeError) as error:
                    self.round()  # as often as that is tried
                    raise UnavailableError(f"Changes of {self._root} cannot be heard of: {error}") from error
                listened = self._folders
                self.round(whole=whole)
                if whole:
                    log.info("in sync", folder=self.name, files=self._report["files"], failed=self._report["failed"])
                    whole, due = False, time.monotonic() + RESCAN_SECONDS
                while self._folders == listened and time.monotonic() < due:
                    if next(changes, None):
                        self.round(whole=False)
                    elif self.stop.is_set():
                        raise StoppedError
                    self._tell()

    def _changes(self, quiet_seconds: float) -> Generator[set[tuple[Change, str]], None, None]:
        """Yield what has changed, after some quiet, and nothing from time to time. Folders are listened to one by one,
        because the library would also enter those that are passed over, and follow symbolic links out."""
        quiet_ms = round(quiet_seconds * 1e3)
        return watch(
            *(self._root / each for each in self._folders),
            recursive=False,
            watch_filter=lambda change, path: path == str(self._root) or not is_ignored(Path(path).name),
            debounce=LONGEST_BURST * quiet_ms,
            step=quiet_ms,
            stop_event=self.stop,
            rust_timeout=quiet_ms,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )

    def _reasons(self, word: str) -> dict[str, str]:
        """Return why files are not stored as they are, by name: those that `failed`, or were `passed over`."""
        return {name: reason for name, (became, reason) in sorted(self._not_stored.items()) if became == word}

    def _source(self, path_below: str) -> str:
        return stored_name(f"{self.name}/{path_below}")

    def _sleep(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise StoppedError

    def _tell(self, **changes: object) -> None:
        """Change the report, and send it now and then."""
        self._report |= changes
        if time.monotonic() - self._reported_at >= HEARTBEAT_SECONDS:
            self._send_now()

    def _send_now(self) -> None:
        """Send the report, once the name is taken; one that does not arrive is followed by others."""
        try:
            if self._has_name:
                self._send()
        except ConflictError:
            raise
        except RagError as error:
            self._reported_at = time.monotonic()
            log.debug("a report did not arrive", reason=error.message)

    def _send(self) -> None:
        with single_attempts():
            self.client.report_watcher(self.name, self._report)
        self._reported_at, self._has_name = time.monotonic(), True


def _time_in(seconds: float) -> str:
    return z_time(utc_now() + timedelta(seconds=seconds))


def run_once(watches: Sequence[Watch]) -> bool:
    """Do one round of each, and say what was done. Return whether no file has failed."""
    are_well = True
    for each in watches:
        try:
            each.begin()
            each.round()
        except StoppedError:
            raise KeyboardInterrupt from None
        finally:
            each.end()
        are_well &= each.show()
    return are_well


def run_all(watches: Sequence[Watch], quiet_seconds: float, stop: threading.Event) -> None:
    """Run each watch in a thread of its own. When one cannot go on, end all of them and raise its error."""

    def run(each: Watch) -> None:
        try:
            each.run(quiet_seconds)
        finally:
            stop.set()
            each.end()

    with ThreadPoolExecutor(len(watches)) as threads:
        running = [threads.submit(run, each) for each in watches]
        # The system may hand a signal to any thread, but Python runs its handler in this one, once it wakes up.
        while wait(running, SIGNAL_SECONDS).not_done:
            pass
    for each in running:
        each.result()
