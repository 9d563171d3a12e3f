"""No request leaves the machine: the service's processes connect only to addresses on it."""

import ipaddress
import os
import socket
import threading
from pathlib import Path

import pytest

from interfaces.commands.scratch_service import processes_in
from tests.durability.processes import sockets
from tests.durability.workload import Writer, create, running, written
from tests.support.live import PATIENCE_SECONDS, start_service

TABLES = {"tcp": 8, "udp": 8, "tcp6": 32, "udp6": 32}
SOMEWHERE_ELSE = ("192.0.2.1", 53)
"""An address from the documentation range (RFC 5737)."""

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="this system has no /proc/net to ask")


def peers_of(pids):
    """Return the addresses to which sockets of these processes are connected or connecting."""
    inodes = set().union(*(sockets(pid) for pid in pids))
    found = set()
    for table in TABLES:
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                found.add(_address(fields[2].partition(":")[0]))
    return {address for address in found if not address.is_unspecified}


def _address(written):
    """Return the address in its usual form; the kernel writes each 32-bit word of it in its own byte order."""
    words = [bytes.fromhex(written[start : start + 8])[::-1] for start in range(0, len(written), 8)]
    address = ipaddress.ip_address(b"".join(words))
    return getattr(address, "ipv4_mapped", None) or address


def test_a_connection_to_elsewhere_would_be_seen():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(SOMEWHERE_ELSE)  # sends nothing
        except OSError as error:
            pytest.skip(f"this machine has no route to anywhere: {error}")
        assert ipaddress.ip_address(SOMEWHERE_ELSE[0]) in peers_of([os.getpid()])


# What a process asks for between two looks is told by Python itself.
TELLS_WHO_IS_ASKED = """
import os, sys

def tell(event, given):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        asked = given[0] if isinstance(given[0], (str, bytes)) else given[1]
        with open(os.environ["ASKED"], "a") as file:
            print(asked[0] if isinstance(asked, tuple) else asked, file=file)

sys.addaudithook(tell)
"""


def test_no_process_of_the_service_connects_to_anywhere_else(tmp_path, monkeypatch):
    seen, ended, asked = set(), threading.Event(), tmp_path / "asked"
    (tmp_path / "sitecustomize.py").write_text(TELLS_WHO_IS_ASKED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ASKED", str(asked))

    def watch():
        while not ended.wait(0.05):
            seen.update(peers_of(processes_in(tmp_path / "data")))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        # Watched from the first moment: a program that phones home does so when it starts.
        service = start_service(tmp_path)
        try:
            create(service, "here")
            writer = Writer(service, "here", 1)
            with running([writer.run]) as stopping:
                written([writer], 100, stopping)
            with service.session() as session:
                for path in ("/health", "/docs", "/metrics", "/openapi.json"):
                    assert session.get(f"{service.url}{path}", timeout=PATIENCE_SECONDS).status_code == 200
        finally:
            service.stop()
    finally:
        ended.set()
        watcher.join()
    assert any(address.is_loopback for address in seen)
    assert {address for address in seen if not address.is_loopback} == set()
    assert {"127.0.0.1"} <= set(asked.read_text().split()) <= {"127.0.0.1", "localhost"}
