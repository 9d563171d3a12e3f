"""A disk that is full refuses writes and harms nothing, and is used again as soon as it has room."""

import shutil
import subprocess
import threading
from contextlib import contextmanager, suppress
from itertools import count

import pytest
import requests

from tests.durability.workload import (
    Reader,
    Writer,
    assert_each_write_has_its_line,
    assert_nothing_is_lost,
    create,
    documents,
    healed,
    running,
    written,
)
from tests.support.commands import run_command
from tests.support.live import PATIENCE_SECONDS, eventually, start_service
from wrapper.access.room_to_revoke import FILE_NAME

DISK_MB = 160
STORED_WRITES = 60
REFUSED_WRITES = 40


@contextmanager
def small_disk(directory):
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip("no small disk can be mounted here, which needs the right to mount")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture
def serve_on_small_disk(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        services = []

        def serve(**settings):
            services.append(start_service(disk, **settings))
            return services[-1]

        try:
            yield serve
        finally:
            for service in services:
                service.stop()


def fill(disk):
    """Write a file that leaves no room."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while (left := shutil.disk_usage(disk).free) > 0:
            file.write(bytes(min(left, 1 << 20)))
    return filler


def test_a_disk_full_to_the_last_byte_loses_nothing_and_recovers_when_it_has_room(serve_on_small_disk):
    service = serve_on_small_disk(disk_floor_mb=0, write_wait_seconds=2)
    given = documents(200, seed=5)
    create(service, "fixed", given)
    create(service, "filled")
    disk = service.data_dir.parent
    writers = [Writer(service, "filled", number) for number in range(4)]
    reader = Reader(service, "fixed", given)

    def keep_filled(stopping):
        while not (stopping.is_set() or emptied.is_set()):
            fill(disk)
            emptied.wait(0.2)

    emptied = threading.Event()
    with running([*(writer.run for writer in writers), reader.run]) as stopping:
        written(writers, STORED_WRITES, stopping, complaint=service.tail)
        with running([keep_filled]):
            eventually(
                lambda: stopping.is_set() or sum(len(writer.refused) for writer in writers) > REFUSED_WRITES,
                complaint=service.tail,
            )
            answered_when_full = len(reader.latencies)
            eventually(lambda: stopping.is_set() or len(reader.latencies) > answered_when_full + 20)
            emptied.set()
        (disk / "filler").unlink()
        written(writers, STORED_WRITES, stopping, complaint=service.tail)
    assert (reader.violations, reader.cut) == ([], 0)
    healed(service)
    refusals = {refusal.split(": ")[1][:3] for writer in writers for refusal in writer.refused}
    assert refusals <= {"507", "503"}, refusals
    assert_nothing_is_lost(service, "filled", writers)
    assert_each_write_has_its_line(service, writers)


def test_keys_are_revoked_on_a_disk_without_a_free_byte_and_erasing_is_refused(serve_on_small_disk):
    admin = "an-administrators-key-for-tests"
    service = serve_on_small_disk(disk_floor_mb=0, api_key=admin)
    disk, seeds = service.data_dir.parent, count(2)

    def status(method, path, body=None, key=admin):
        headers = {"Authorization": f"Bearer {key}"}
        answer = requests.request(method, service.url + path, json=body, headers=headers, timeout=PATIENCE_SECONDS)
        answers.append(answer)
        return answer.status_code

    answers = []
    for _ in range(2):
        assert status("POST", "/api/keys", {"name": "k", "scopes": ["read"]}) == 201
    made = [answer.json() for answer in answers]
    given = documents(5, seed=1)
    assert status("POST", "/collections", {"name": "kept"}) == 201
    assert status("POST", "/collections/kept/documents", {"documents": given}) == 201
    eventually(lambda: (service.data_dir / FILE_NAME).stat().st_size > 0)
    filler = fill(disk)

    def refused():
        """Fill up what was given back, and write until there is no room for it."""
        fill(disk)
        body = {"documents": documents(50, seed=next(seeds))}
        return status("POST", "/collections/kept/documents", body) == 507

    eventually(refused)
    erase = {"collection": "kept", "document": given[0]["id"]}
    assert status("POST", "/api/erase", erase) == 507
    assert status("DELETE", f"/api/keys/{made[0]['id']}") == 200
    fill(disk)
    by_command = run_command("keys", "revoke", made[1]["id"], data_dir=service.data_dir)
    assert by_command.returncode == 0, by_command.stderr
    for each in made:
        eventually(lambda key=each["key"]: status("GET", "/api/me", key=key) == 401)
    filler.unlink()
    eventually(lambda: status("POST", "/api/erase", erase) == 200)
    assert "Traceback" not in service.log.read_text()
