"""Bring files into a running service: it is asked which it has, the others are uploaded, and their jobs are followed
until they end. `load` and `watch` are made of this."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from interfaces.asked_service import client_of
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import LONGEST_WAIT_SECONDS, PATIENT
from retrieval.ingest.collection_writer import batches
from retrieval.ingest.identity import document_id, one_spelling, stored_name
from retrieval.ingest.regular_files import LINK, NOT_A_FILE
from retrieval.ingest.sources import SourceFile
from retrieval.ingest.walk import Found
from retrieval.reading import UnreadableError
from retrieval.reading.read_document import EMPTY, TOO_LARGE, UNSUPPORTED_KIND
from schemas.contracts.jobs import DONE, FAILED, REFUSED, WAITING, JobsFullError, OwnJobsFullError
from schemas.contracts.jobs import UNCHANGED as STORED_ALREADY
from schemas.errors import BusyError, DiskFloorError, InvalidInputError, NotFoundError, RagError, UnavailableError
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

    def count(self, word: str) -> int:
        return Counter(self.became.values())[word]

    def refuse(self, name: str, code: str, message: str) -> None:
        self.became[name] = PASSED_OVER if code in NO_ERRORS else FAILED
        self.reasons[name] = message


@contextmanager
def clients_at(url: str) -> Iterator[tuple[WrapperClient, WrapperClient]]:
    """Give two clients of the service at `url`: one that waits where it is busy or starts, and one that asks once."""
    with closing(client_of(url, retry=PATIENT)) as patient, closing(client_of(url)) as once:
        yield WrapperClient(patient), WrapperClient(once)


class Uploader:
    """Uploads files into one collection, by default the one of the service, with the same metadata for each.

    `tell` is called with (files that are settled, files to settle, chunks stored), `say` with a sentence about a long
    wait, and `sleep` with seconds, in which it may raise what ends the work.
    """

    def __init__(
        self,
        clients: tuple[WrapperClient, WrapperClient],
        *,
        collection: str | None,
        metadata: Metadata | None = None,
        tell: Callable[[int, int, int], None] = lambda done, total, chunks: None,
        say: Callable[[str], None] = lambda sentence: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.client, self._once = clients
        self._collection = collection
        self._metadata = metadata or {}
        self._tell = tell
        self._say = say
        self._sleep = sleep
        self._digests: dict[str, tuple[tuple[int, ...], str]] = {}
        self._jobs: dict[str, list[str]] = {}
        self._pause = FIRST_POLL_SECONDS
        self._under_way = 0
        self._said: set[str] = set()

    def bring(self, files: Mapping[str, SourceFile]) -> Outcome:
        """Have each file, given by its name, stored as it is. Raises RagError when the service fails or refuses; what
        was uploaded by then goes on there."""
        self._jobs.clear()
        limits = self.client.compare_files({}, collection=self._collection, metadata=self._metadata)
        with self.client.reading():
            outcome, most_bytes = Outcome(limits["collection"]), int(limits["max_file_bytes"])
        known = self._compare(files, most_bytes, outcome)
        for some in _in_jobs(known, files, min(JOB_BYTES, most_bytes)):
            for contents in self._parts(some, files, most_bytes, outcome):
                while len(self._jobs) >= OPEN_JOBS:
                    self._follow(known, outcome)
                self._send(contents, known, outcome)
            self._tell_all(outcome, len(files))
        while self._jobs:
            self._follow(known, outcome)
            self._tell_all(outcome, len(files))
        self._digests = {name: digest for name, digest in self._digests.items() if name in files}
        return outcome

    def delete(self, document: str, collection: str) -> bool:
        """Delete a document by its id; return whether there was one."""
        with suppress(NotFoundError):
            self.client.delete_stored(document, collection)
            return True
        return False

    def _compare(self, files: Mapping[str, SourceFile], most_bytes: int, outcome: Outcome) -> dict[str, str]:
        """Return what storing makes of each file that differs, `created` or `updated`."""
        known: dict[str, str] = {}
        for some in batches(files, COMPARED_AT_ONCE):
            digests: dict[str, str] = {}
            for name in some:
                if files[name].kind.is_records:  # of which the service tells by its lines what has changed
                    known[name] = CREATED
                    continue
                try:
                    digests[name] = self._digest(name, files[name], most_bytes)
                except UnreadableError as error:
                    outcome.refuse(name, error.code, error.message)
            answer = self.client.compare_files(digests, collection=self._collection, metadata=self._metadata)
            with self.client.reading():
                known |= dict.fromkeys(answer["missing"], CREATED) | dict.fromkeys(answer["changed"], UPDATED)
            outcome.became |= {name: UNCHANGED for name in digests if name not in known}
            self._tell_all(outcome, len(files))
        return known

    def _digest(self, name: str, file: SourceFile, most_bytes: int) -> str:
        _check_size(file.size_bytes, most_bytes)
        signature, digest = self._digests.get(name, ((), ""))
        if not digest or signature != file.signature:
            with file.open() as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()  # type: ignore[arg-type]
            self._digests[name] = file.signature, digest
        return digest

    def _parts(
        self, names: Sequence[str], files: Mapping[str, SourceFile], most_bytes: int, outcome: Outcome
    ) -> Iterator[Mapping[str, bytes]]:
        """Yield what is uploaded as one job: the files together or, of a large file of records, some of its lines."""
        if len(names) > 1 or not files[names[0]].kind.is_records:
            if contents := self._read(names, files, most_bytes, outcome):
                yield contents
            return
        [name] = names
        try:
            with files[name].open() as opened:
                while lines := opened.readlines(JOB_BYTES):
                    yield {name: b"".join(lines)}
        except UnreadableError as error:
            outcome.refuse(name, error.code, error.message)

    def _read(
        self, names: Iterable[str], files: Mapping[str, SourceFile], most_bytes: int, outcome: Outcome
    ) -> dict[str, bytes]:
        contents = {}
        for name in names:
            try:
                with files[name].open() as opened:
                    content = opened.read(most_bytes + 1)
                _check_size(len(content), most_bytes)
                contents[name] = content
            except UnreadableError as error:
                outcome.refuse(name, error.code, error.message)
        return contents

    def _send(self, contents: Mapping[str, bytes], known: Mapping[str, str], outcome: Outcome) -> None:
        """Upload files as one job, when there is room for them."""
        upload = partial(
            self._once.upload,
            contents,
            collection=outcome.collection,
            metadata=self._metadata,
            idempotency_key=uuid.uuid4().hex,
        )
        while True:
            try:
                answer = self._patiently(upload)
                break
            except RagError as error:
                if error.code == "no_file_taken":
                    answer = error.details
                    break
                if _is_full(error) and (self._jobs or not isinstance(error, DiskFloorError)):
                    self._wait_for_room(error, known, outcome)
                else:
                    raise
        with self.client.reading():
            taken = list(zip(contents, answer["files"], strict=True))
            if queued := [name for name, each in taken if each["status"] != REFUSED]:
                self._jobs[answer["job"]["id"]] = queued
            for name, each in taken:
                if each["status"] == REFUSED:
                    self._settle(name, {**each, "status": FAILED}, known, outcome)

    def _patiently(self, call: Callable[[], Json]) -> Json:
        """Return what a call returns, tried again for some seconds while the service does not answer, as when it is
        started anew."""
        for attempt in range(1, ATTEMPTS):
            try:
                return call()
            except UnavailableError as error:
                if _is_full(error):
                    raise
                self._sleep(FIRST_POLL_SECONDS * 4**attempt)
        return call()

    def _say_why(self, files: Iterable[Json]) -> None:
        """Say once why files wait that were tried."""
        for message in {each["message"] for each in files if each.get("message") and each["status"] != FAILED}:
            if message not in self._said:
                self._said.add(message)
                self._say(f"Files wait and are tried again: {message}")

    def _wait_for_room(self, error: RagError, known: Mapping[str, str], outcome: Outcome) -> None:
        if self._jobs:
            self._follow(known, outcome)
            return
        if error.message not in self._said:
            self._said.add(error.message)
            self._say(f"The service takes no more files for now, which is waited for: {error.message}")
        self._sleep(ROOM_SECONDS)

    def _follow(self, known: Mapping[str, str], outcome: Outcome) -> None:
        """Wait a little, and note what has become of the jobs under way."""
        self._sleep(self._pause)
        self._under_way, has_ended = 0, False
        for job_id, names in list(self._jobs.items()):
            try:
                job = self._patiently(partial(self.client.job, job_id))
            except NotFoundError:
                job = {"status": "gone", "files": [{"status": "gone"}] * len(names)}
            with self.client.reading():
                if job["status"] in WAITING:
                    self._say_why(job["files"])
                    self._under_way += sum(each["status"] in (DONE, STORED_ALREADY, FAILED) for each in job["files"])
                    continue
                for name, each in zip(names, job["files"], strict=True):
                    self._settle(name, each, known, outcome)
            del self._jobs[job_id]
            has_ended = True
        self._pause = FIRST_POLL_SECONDS if has_ended else min(2 * self._pause, LONGEST_POLL_SECONDS)

    def _settle(self, name: str, file: Json, known: Mapping[str, str], outcome: Outcome) -> None:
        if file["status"] == DONE:
            if outcome.became.get(name) != FAILED:  # of another part of it
                outcome.became[name] = known[name]
            outcome.chunks += file.get("chunks", 0)
        elif file["status"] == STORED_ALREADY:
            outcome.became.setdefault(name, UNCHANGED)
        elif file["status"] == FAILED:
            outcome.refuse(name, file["code"], file["message"])
            if outcome.became[name] == PASSED_OVER and known[name] == UPDATED:
                self.delete(document_id(name), outcome.collection)
        else:
            outcome.refuse(name, InvalidInputError.code, "was not stored, because its job was cancelled")
        if file.get("warnings"):
            outcome.warnings[name] = [*outcome.warnings.get(name, ()), *file["warnings"]]

    def _tell_all(self, outcome: Outcome, total: int) -> None:
        self._tell(len(outcome.became) + self._under_way, total, outcome.chunks)


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
    unsure = [(stored_name(f"{before}{each.source}"), each.source.endswith("/")) for each in found.errors]
    there |= {name for name, is_folder in unsure if not is_folder}
    folders = tuple(f"{name}/" for name, is_folder in unsure if is_folder)
    return {each for each in stored if one_spelling(each) not in there and not each.startswith(folders)}


def _in_jobs(names: Iterable[str], files: Mapping[str, SourceFile], most_bytes: int) -> Iterator[list[str]]:
    """Yield the names of files in parts, each within the bounds of an upload."""
    some: list[str] = []
    size = 0
    for name in names:
        if some and (len(some) == JOB_FILES or size + files[name].size_bytes > most_bytes):
            yield some
            some, size = [], 0
        some.append(name)
        size += files[name].size_bytes
    if some:
        yield some


def _check_size(size_bytes: int, most_bytes: int) -> None:
    if size_bytes > most_bytes:
        sentence = f"is larger than {most_bytes >> 20} MB, which the service takes at most (RAG_UPLOAD_FILE_MB)"
        raise UnreadableError(sentence, code=TOO_LARGE)


def _is_full(error: RagError) -> bool:
    """Return whether a refusal passes by itself soon, unlike that of a limit for the day."""
    codes = (JobsFullError.code, OwnJobsFullError.code)
    is_busy = isinstance(error, BusyError) and (error.retry_after_seconds or 0) <= LONGEST_WAIT_SECONDS
    return error.code in codes or is_busy or isinstance(error, DiskFloorError)
