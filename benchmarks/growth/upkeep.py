"""What is measured once at each size: a delete by filter, a start, a check-up, a rebuild, a backup, disk and memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.clients import Connection, RefusedError, request
from benchmarks.growth.documents import GrowingCorpus
from benchmarks.peer import COLLECTION, OurSide
from benchmarks.processes import cpu_seconds, memory_of
from interfaces.commands.scratch_service import ScratchService, command, processes_in, scratch_service

POLL_SECONDS = 0.05
LONGEST_SECONDS = 7200.0
DELETED_SHARE, MOST_DELETED = 0.1, 100_000
QUERIES_AT_ONCE, HELD_SECONDS = 50, 900.0
QUIET_SECONDS, QUIET_SHARE = 3.0, 0.15
"""A service is quiet when it takes less than this share of a processor for so long."""
Once = dict[str, float]


class OurService:
    """This service in a directory, which can be stopped and started again."""

    def __init__(self, directory: Path, records: str) -> None:
        self._directory, self._records = directory, records
        self._running = ExitStack()
        self.service: ScratchService | None = None
        self.side = OurSide("", directory)

    def start(self, *, wait: bool = True) -> None:
        context = scratch_service(self._directory, wait=wait, engine_records=self._records)
        self.service = self._running.enter_context(context)
        self.side.url = self.service.url

    def stop(self) -> None:
        self._running.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = Connection(self.side.url)
        try:
            return connection.call(request(method, path, body))
        finally:
            connection.close()

    def count(self) -> int:
        return int(self.ask("GET", f"/collections/{COLLECTION}/documents/count")["count"])

    def wait_until(self, is_so: Callable[[], bool], what: str, poll_seconds: float = POLL_SECONDS) -> None:
        """Wait until a condition holds. Raises RefusedError after `LONGEST_SECONDS`."""
        started = time.perf_counter()
        while not is_so():
            if time.perf_counter() - started > LONGEST_SECONDS:
                raise RefusedError(f"It took too long: {what}")
            time.sleep(poll_seconds)

    def settle(self, most_entries: int = 0) -> None:
        """Wait until at most so many writes wait for the index."""
        self.wait_until(lambda: self.ask("GET", "/health")["index_lag"] <= most_entries, "the index catches up", 0.25)

    @contextmanager
    def timed(self, once: Once, key: str) -> Iterator[None]:
        """Put the seconds of a block, and the processor seconds of the service meanwhile, into `once`."""
        before = {pid: cpu_seconds([pid]) for pid in processes_in(self._directory)}
        started = time.perf_counter()
        yield
        once[f"{key}_seconds"] = time.perf_counter() - started
        # What began meanwhile counts from its start.
        taken = (cpu_seconds([pid]) - before.get(pid, 0.0) for pid in processes_in(self._directory))
        once[f"{key}_cpu_seconds"] = sum(taken)


def hold(ours: OurService, corpus: GrowingCorpus, once: Once) -> None:
    """Ask queries until the collection is answered from memory, and note the seconds until then.

    One that does not fit into memory is given up after `HELD_SECONDS`.
    """
    started = time.perf_counter()
    for number in count():
        query = corpus.queries[number % len(corpus.queries)]
        plan = ours.ask("POST", *_query(ours.side, query.embedding))["plan"]
        once["held_after_seconds"] = time.perf_counter() - started
        if plan == "memory" or once["held_after_seconds"] > HELD_SECONDS:
            break
        if number >= QUERIES_AT_ONCE:  # codes are being made meanwhile
            time.sleep(POLL_SECONDS)
    print(f"    plan {plan} after {number + 1} queries, {once['held_after_seconds']:.1f} s", flush=True)


def rest(ours: OurService, once: Once) -> None:
    """Wait until the service has done what follows a load, such as a check-up and merging words, and note how long."""
    started = time.perf_counter()
    pids = processes_in(ours.side.directory)
    used = QUIET_SHARE
    while used >= QUIET_SHARE and time.perf_counter() - started < HELD_SECONDS:
        before = cpu_seconds(pids)
        time.sleep(QUIET_SECONDS)
        used = (cpu_seconds(pids) - before) / QUIET_SECONDS
    once["quiet_after_seconds"] = time.perf_counter() - started


def restart(ours: OurService, corpus: GrowingCorpus, once: Once) -> None:
    """Stop the service and start it again, until it is ready, healthy, and has answered its first vector query."""
    started = time.perf_counter()
    ours.stop()
    once["stop_seconds"] = time.perf_counter() - started
    started = time.perf_counter()
    ours.start(wait=False)
    for key, path, is_so in (
        ("ready", "/ready", lambda answer: True),
        ("healthy", "/health", lambda answer: answer["status"] == "healthy"),
    ):
        ours.wait_until(partial(_answers, ours, path, is_so), key)
        once[f"start_{key}_seconds"] = time.perf_counter() - started
    ours.ask("POST", *_query(ours.side, corpus.queries[0].embedding))
    once["start_first_query_seconds"] = time.perf_counter() - started
    once["start_cpu_seconds"] = cpu_seconds(processes_in(ours.side.directory))


def check(ours: OurService, once: Once) -> None:
    """Have the index checked, as `rag-wrapper check` does."""
    path = f"/collections/{COLLECTION}/index"
    before = ours.ask("GET", path)
    with ours.timed(once, "check"):
        ours.ask("POST", f"{path}/check")
        ours.wait_until(lambda: _is_checked(before, ours.ask("GET", path)), "the check")
    index = ours.ask("GET", path)
    once["index_recall"] = index["recall_at_10"]
    if index["filtered_recall_at_10"] is not None:
        once["index_filtered_recall"] = index["filtered_recall_at_10"]


def rebuild(ours: OurService, once: Once) -> None:
    with ours.timed(once, "rebuild"):
        ours.side.rebuild()


def backup(ours: OurService, once: Once) -> None:
    """Make a backup by the command beside the running service, note its size, and remove it."""
    assert ours.service is not None
    file = ours.service.directory / "growth.ragbackup"
    started = time.perf_counter()
    done = subprocess.run(command("backup", str(file)), env=ours.service.environ, capture_output=True, check=False)
    if done.returncode:
        raise RefusedError(f"No backup was made: {done.stderr.decode()[-300:]}")
    once["backup_seconds"] = time.perf_counter() - started
    once["backup_mb"] = _megabytes(file)
    file.unlink()


def delete_and_add(
    ours: OurService, corpus: GrowingCorpus, size: int, add: Callable[[list[int]], float], once: Once
) -> None:
    """Delete a tenth of the documents by a filter, at most `MOST_DELETED`, wait for the index, and add them again."""
    share = share_deleted(size)
    again = corpus.in_share(share, size)
    body = {"where": {"spread": {"$lt": share}}}
    with ours.timed(once, "delete_indexed"):
        started = time.perf_counter()
        answer = ours.ask("DELETE", f"/collections/{COLLECTION}/documents?wait=commit", body)
        once["delete_stored_seconds"] = time.perf_counter() - started
        ours.settle()
    if answer["count"] != len(again):
        raise RefusedError(f"{answer['count']} documents were deleted, not {len(again)}")
    once["deleted"] = len(again)
    with ours.timed(once, "add_again_indexed"):
        once["add_again_stored_seconds"] = add(again)
        ours.settle()


def share_deleted(size: int) -> float:
    return min(DELETED_SHARE, MOST_DELETED / size)


def disk_mb(directory: Path) -> dict[str, float]:
    """Return the megabytes that each file and folder of the data directory takes on the disk, from one up."""
    sizes = {each.name: _megabytes(each) for each in (directory / "data").iterdir()}
    return {name: size for name, size in sorted(sizes.items(), key=lambda each: -each[1]) if size >= 1.0}


def memory_mb(directory: Path) -> list[dict[str, Any]]:
    """Return the memory of each process in megabytes; their `pss` add up."""
    return [
        {"process": each.process, "pss": each.pss_mb, "heap": each.anonymous_mb, "files": each.file_mb}
        for each in memory_of("", directory)
    ]


def _query(side: OurSide, embedding: Any) -> tuple[str, Any]:
    return f"/collections/{COLLECTION}/query", {"query_embedding": embedding, "top_k": 10}


def _answers(ours: OurService, path: str, is_so: Callable[[Any], bool]) -> bool:
    try:
        return is_so(ours.ask("GET", path))
    except (OSError, RefusedError, ValueError, IndexError):
        return False


def _is_checked(before: Any, index: Any) -> bool:
    return all(index[key] != before[key] for key in ("checked_at", "recall_measured_at"))


def _megabytes(path: Path) -> float:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    total = 0
    for file in files:
        try:
            total += file.stat().st_blocks * 512
        except OSError:
            continue  # gone meanwhile
    return total / 2**20
