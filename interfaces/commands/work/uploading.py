"""Bring files into a running service: it is asked which it has, the others are uploaded, and their jobs are followed
until they end. `load` and `watch` are made of this."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from providers.outbound.deadlines import single_attempts
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import LONGEST_WAIT_SECONDS
from retrieval.ingest.collection_writer import batches
from retrieval.ingest.identity import document_id, one_spelling, stored_name
from retrieval.ingest.walk import LINK, NOT_A_FILE, Found, SourceFile
from retrieval.reading import EMPTY, TOO_LARGE, UNSUPPORTED_KIND, UnreadableError
from schemas.contracts.jobs import DONE, FAILED, REFUSED, WAITING, JobsFullError, OwnJobsFullError
from schemas.contracts.jobs import UNCHANGED as STORED_ALREADY
from schemas.errors import BusyError, DiskFloorError, InvalidInputError, NotFoundError, RagError, UnavailableError
from schemas.plurals import counted
from schemas.records import Metadata

CREATED, UPDATED, UNCHANGED, PASSED_OVER = "created", "updated", "unchanged", "passed over"
NO_ERRORS = (EMPTY, UNSUPPORTED_KIND, LINK, NOT_A_FILE)
"""The codes of files that are passed over, as there is nothing in them that could be missed."""
COMPARED_AT_ONCE = 5_000
JOB_FILES, JOB_BYTES = 100, 16 << 20
"""The bounds of an upload, unless a single file is larger."""
OPEN_JOBS = 4
"""The most jobs that are under way: enough for the service to be busy, and few enough to leave room for others."""
FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.1, 1.0
ROOM_SECONDS = 5.0
"""How long to wait when the service has no room, and no job of this client that could make some."""
ATTEMPTS = 5

Json = dict[str, Any]


@dataclass(slots=True)
class Outcome:
    """What became of files: a word for each name, and the reason of those that failed or were passed over. `chunks` are
    those of the files that were stored now."""

    collection: str = ""
    chunks: int = 0
    became: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, list[str]] = field(default_factory=dict)

    def count(self, *words: str) -> int:
        return sum(each in words for each in self.became.values())

    def refuse(self, name: str, code: str, message: str) -> None:
        self.became[name] = PASSED_OVER if code in NO_ERRORS else FAILED
        self.reasons[name] = message

    @contextmanager
    def refusing(self, name: str) -> Iterator[None]:
        """Refuse a file that cannot be read in the block."""
        try:
            yield
        except UnreadableError as error:
            self.refuse(name, error.code, error.message)

    def summary(self, deleted: int) -> str:
        """Return a line that says what is stored, what was done for that, and what is missing."""
        stored, failed = self.count(CREATED, UPDATED, UNCHANGED), self.count(FAILED)
        passed_over = f", {count} passed over" if (count := self.count(PASSED_OVER)) else ""
        if stored == self.count(UNCHANGED) > 0 and not deleted and not failed:
            is_there = "is" if stored == 1 else "are"
            return f"nothing changed: {counted(stored, 'file')} {is_there} already there{passed_over}"
        deeds = [f"{count} {word}" for word in (CREATED, UPDATED, UNCHANGED) if (count := self.count(word))]
        deeds += [f"{deleted} deleted"] if deleted else []
        chunks = f", {counted(self.chunks, 'new chunk')}" if self.chunks else ""
        missing = f"{passed_over}, {failed} failed" if failed else passed_over
        return f"{self.collection}: {counted(stored, 'file')}{chunks}: {', '.join(deeds) or 'nothing stored'}{missing}"


@dataclass
class Uploader:
    """Uploads files into one collection, by default the one of the service, with the same metadata for each.

    `tell` is called with (files that are settled, files to settle, chunks stored), `say` with a sentence about a long
    wait, and `sleep` with seconds, in which it may raise what ends the work.
    """

    client: WrapperClient
    collection: str | None
    metadata: Metadata = field(default_factory=dict)
    tell: Callable[[int, int, int], None] = lambda done, total, chunks: None
    say: Callable[[str], None] = lambda sentence: None
    sleep: Callable[[float], None] = time.sleep
    _said: set[str] = field(default_factory=set, init=False)
    _digests: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict, init=False)
    _pause: float = field(default=FIRST_POLL_SECONDS, init=False)
    # Of the files that are brought at the moment: what storing makes of each that differs, and the open jobs.
    _outcome: Outcome = field(default_factory=Outcome, init=False)
    _known: dict[str, str] = field(default_factory=dict, init=False)
    _jobs: dict[str, list[str]] = field(default_factory=dict, init=False)
    _files: int = field(default=0, init=False)
    _under_way: int = field(default=0, init=False)
    _most_bytes: int = field(default=0, init=False)

    def target(self) -> str:
        """Return the name of the collection."""
        answer = self._compare({})
        with self.client.reading():
            self._most_bytes = int(answer["max_file_bytes"])
            return str(answer["collection"])

    def bring(self, files: Mapping[str, SourceFile]) -> Outcome:
        """Have each file, given by its name, stored as it is. Raises RagError when the service fails or refuses; what
        was uploaded by then goes on there."""
        outcome = self._outcome = Outcome(self.target())
        self._known, self._jobs, self._files = {}, {}, len(files)
        for some in batches(files, COMPARED_AT_ONCE):
            self._look_at({name: files[name] for name in some})
        for contents in self._contents(files):
            while len(self._jobs) >= OPEN_JOBS:
                self._follow()
            self._send(contents)
        while self._jobs:
            self._follow()
        self._tell_all()
        self._digests = {name: digest for name, digest in self._digests.items() if name in files}
        return outcome

    def delete(self, document: str, collection: str) -> bool:
        """Delete a document by its id; return whether there was one."""
        with suppress(NotFoundError):
            self.client.delete_stored(document, collection)
            return True
        return False

    def gone(self, before: str, found: Found, *, allow_empty: bool) -> list[str]:
        """Return the ids of the documents of a folder that are not in it any more. Raises InvalidInputError where that
        would be all that is stored: then it is another folder of that name."""
        stored = stored_documents(self.client, self.target(), below(before))
        gone = gone_from(found, stored.values(), before)
        if gone and not allow_empty and gone.issuperset(stored.values()):
            sentence = f"None of the {counted(len(stored), 'document')} stored below '{before}' is in this folder"
            raise InvalidInputError(f"{sentence}: is it another one of that name? --allow-empty deletes them")
        return [document for document, source in stored.items() if source in gone]

    def _compare(self, digests: Mapping[str, str]) -> Json:
        return self.client.compare_files(digests, collection=self.collection, metadata=self.metadata)

    def _look_at(self, files: Mapping[str, SourceFile]) -> None:
        """Find out which of these files differ from what is stored."""
        digests: dict[str, str] = {}
        for name, file in files.items():
            if file.kind.is_records:  # of which the service tells by its lines what has changed
                self._known[name] = CREATED
                continue
            with self._outcome.refusing(name):
                self._check_size(file.size_bytes)
                signature, digest = self._digests.get(name, ((), ""))
                if not digest or signature != file.signature:
                    with file.open() as opened:
                        digest = hashlib.file_digest(opened, "sha256").hexdigest()  # type: ignore[arg-type]
                    self._digests[name] = file.signature, digest
                digests[name] = digest
        answer = self._compare(digests)
        with self.client.reading():
            self._known |= dict.fromkeys(answer["missing"], CREATED) | dict.fromkeys(answer["changed"], UPDATED)
        self._outcome.became |= {name: UNCHANGED for name in digests if name not in self._known}
        self._tell_all()

    def _contents(self, files: Mapping[str, SourceFile]) -> Iterator[dict[str, bytes]]:
        """Yield what is uploaded as one job each: files that differ together or, of a file of records, some lines."""
        some: dict[str, bytes] = {}
        size = 0
        for name in self._known:
            file = files[name]
            with self._outcome.refusing(name), file.open() as opened:
                if file.kind.is_records:
                    lines = opened.readlines(JOB_BYTES)
                    yield {name: b"".join(lines)}
                    while lines := opened.readlines(JOB_BYTES):
                        yield {name: b"".join(lines)}
                    continue
                content = opened.read(self._most_bytes + 1)
                self._check_size(len(content))
                if some and (len(some) == JOB_FILES or size + len(content) > min(JOB_BYTES, self._most_bytes)):
                    yield some
                    some, size = {}, 0
                some[name] = content
                size += len(content)
        if some:
            yield some

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._most_bytes:
            most = f"{self._most_bytes >> 20} MB, which the service takes at most (RAG_UPLOAD_FILE_MB)"
            raise UnreadableError(f"is larger than {most}", code=TOO_LARGE)

    def _send(self, contents: Mapping[str, bytes]) -> None:
        """Upload files as one job, when there is room for them."""
        upload = partial(
            self.client.upload,
            contents,
            collection=self._outcome.collection,
            metadata=self.metadata,
            idempotency_key=uuid.uuid4().hex,
        )
        answer: Json | None = None
        while answer is None:
            try:
                with single_attempts():  # where the service is busy, the jobs under way are followed meanwhile
                    answer = self._patiently(upload)
            except RagError as error:
                if error.code == "no_file_taken":
                    answer = error.details
                elif _is_full(error) and self._jobs:
                    self._follow()
                elif _is_full(error) and not isinstance(error, DiskFloorError):
                    self._say_once("The service takes no more files for now, which is waited for", error.message)
                    self.sleep(ROOM_SECONDS)
                else:
                    raise
        with self.client.reading():
            taken = list(zip(contents, answer["files"], strict=True))
            if queued := [name for name, each in taken if each["status"] != REFUSED]:
                self._jobs[answer["job"]["id"]] = queued
            for name, each in taken:
                if each["status"] == REFUSED:
                    self._settle(name, {**each, "status": FAILED})
        self._tell_all()

    def _patiently(self, call: Callable[[], Json]) -> Json:
        """Return what a call returns, tried again for some seconds while the service does not answer, as when it is
        started anew."""
        for attempt in range(1, ATTEMPTS):
            try:
                return call()
            except UnavailableError as error:
                if _is_full(error):
                    raise
                self.sleep(FIRST_POLL_SECONDS * 4**attempt)
        return call()

    def _say_once(self, what: str, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            self.say(f"{what}: {reason}")

    def _follow(self) -> None:
        """Wait a little, and note what has become of the jobs under way."""
        self.sleep(self._pause)
        self._under_way, has_ended = 0, False
        for job_id, names in list(self._jobs.items()):
            try:
                job = self._patiently(partial(self.client.job, job_id))
            except NotFoundError:
                job = {"status": "gone", "files": [{"status": "gone"}] * len(names)}
            with self.client.reading():
                if job["status"] in WAITING:
                    self._under_way += sum(each["status"] in (DONE, STORED_ALREADY, FAILED) for each in job["files"])
                    for each in job["files"]:
                        if each.get("message") and each["status"] != FAILED:
                            self._say_once("Files wait and are tried again", each["message"])
                    continue
                for name, each in zip(names, job["files"], strict=True):
                    self._settle(name, each)
            del self._jobs[job_id]
            has_ended = True
        self._pause = FIRST_POLL_SECONDS if has_ended else min(2 * self._pause, LONGEST_POLL_SECONDS)
        self._tell_all()

    def _settle(self, name: str, file: Json) -> None:
        outcome, known = self._outcome, self._known[name]
        if file["status"] == DONE:
            if outcome.became.get(name) != FAILED:  # of another part of it
                outcome.became[name] = known
            outcome.chunks += file.get("chunks", 0)
        elif file["status"] == STORED_ALREADY:
            outcome.became.setdefault(name, UNCHANGED)
        elif file["status"] == FAILED:
            outcome.refuse(name, file["code"], file["message"])
            if outcome.became[name] == PASSED_OVER and known == UPDATED:
                self.delete(document_id(name), outcome.collection)
        else:
            outcome.refuse(name, InvalidInputError.code, "was not stored, because its job was cancelled")
        if file.get("warnings"):
            outcome.warnings[name] = [*outcome.warnings.get(name, ()), *file["warnings"]]

    def _tell_all(self) -> None:
        self.tell(len(self._outcome.became) + self._under_way, self._files, self._outcome.chunks)


def stored_documents(client: WrapperClient, collection: str, where: Json) -> dict[str, str]:
    """Return the source of each document whose `source` and other metadata match, by its id: of files, of texts, and of
    what is stored in one piece."""
    first = {"$or": [{"chunk_index": 0}, {"document_id": {"$exists": False}}]}
    found: dict[str, str] = {}
    with suppress(NotFoundError), client.reading():
        for each in client.documents(collection, {"$and": [where, first]}):
            found[each["metadata"].get("document_id", each["id"])] = each["metadata"]["source"]
    return found


def below(folder: str) -> Json:
    """Return the filter of the documents whose source begins with `folder`, which ends with `/`; in an order by
    characters they stand together."""
    return {"$and": [{"source": {"$gte": folder}}, {"source": {"$lt": f"{folder[:-1]}0"}}]}


def gone_from(found: Found, stored: Iterable[str], before: str) -> set[str]:
    """Return those of the stored sources whose files are not in the folder any more; `before` stands before the paths
    of its files. What is below a folder that cannot be listed, and what cannot be looked at, may still be there."""
    there = {stored_name(f"{before}{each.path_below}") for each in found.files}
    unsure = [(stored_name(f"{before}{each.path}"), each.path.endswith("/")) for each in found.errors]
    there |= {name for name, is_folder in unsure if not is_folder}
    folders = tuple(f"{name}/" for name, is_folder in unsure if is_folder)
    return {each for each in stored if one_spelling(each) not in there and not each.startswith(folders)}


def _is_full(error: RagError) -> bool:
    """Return whether a refusal passes by itself soon, unlike that of a limit for the day."""
    codes = (JobsFullError.code, OwnJobsFullError.code)
    is_busy = isinstance(error, BusyError) and (error.retry_after_seconds or 0) <= LONGEST_WAIT_SECONDS
    return error.code in codes or is_busy or isinstance(error, DiskFloorError)
