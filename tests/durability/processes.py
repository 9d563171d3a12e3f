"""Find the processes of a running service by asking the kernel, measure and kill them."""

import os
import re
import signal
from contextlib import suppress
from pathlib import Path

from interfaces.commands.scratch_service import processes_in
from schemas.errors import ConfigurationError
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.engine.data_directory_lock import check_free
from wrapper.engine.keeper.state import read_state


def alive(pid):
    """Return whether a process is running or stopped; a zombie that its parent has not reaped yet counts as gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def children(pid):
    """Return the direct children, whichever thread started them."""
    found = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in tasks.read_text().split()]
    return [child for child in found if alive(child)]


def workers(service):
    """Return the process ids of gunicorn's workers."""
    return [pid for pid in children(service.process.pid) if b"wrapper.engine.keeper" not in _command(pid)]


def keeper(service):
    return read_state(service.data_dir).keeper_pid


def leader(service, lock="indexer.lock"):
    """Return the worker that drains the outbox or, by its `lock`, does something else that only one does; None while
    nobody does."""
    inode = str((service.data_dir / lock).stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
            return int(fields[4])
    return None


def worker_of(session_port, service):
    """Return the worker that holds the other end of a connection made from this local port."""
    wanted = f":{service.port:04X}", f":{session_port:04X}"
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(wanted[0]) and fields[2].endswith(wanted[1]):
            inodes.add(fields[9])
    return next((pid for pid in workers(service) if sockets(pid) & inodes), None)


def sockets(pid):
    """Return the inodes of the sockets that a process has open, as the kernel's tables of connections name them."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # closed meanwhile
            target = os.readlink(link)
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


def all_of(service):
    """Return the processes of a service: the master, its workers, the keeper and the engine."""
    found = (service.process.pid, *workers(service), keeper(service), service.engine_pid)
    return [pid for pid in found if pid is not None]


def kill_everything(service):
    """Kill all processes of a service at once, and wait until they are gone."""
    kill(*all_of(service))
    service.process.wait(PATIENCE_SECONDS)
    eventually(lambda: not processes_in(service.data_dir) and is_free(service.data_dir))


def is_free(data_dir):
    """Return whether nobody holds the lock of the directory: a process that is ending shows no command line any more, and
    counts as a zombie, while its last threads still hold it."""
    with suppress(ConfigurationError):
        check_free(data_dir)
        return True
    return False


def kill(*pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def resident_mb(pid):
    return _memory_mb(pid, "VmRSS")


def peak_mb(pid):
    """Return the highest resident memory since `forget_peak`."""
    return _memory_mb(pid, "VmHWM")


def forget_peak(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _memory_mb(pid, name):
    return int(re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) >> 10


def is_stopped(pid):
    """Return whether all threads of a process have stopped."""
    threads = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(told.rpartition(")")[2].split()[0] == "T" for told in threads)


def _command(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
