"""The program that becomes the Chroma server: `python chroma_main.py LOCK_FILE KEEPER_PID CONFIG_FILE`.

It calls the same entry as the `chroma run` command without importing the whole of chromadb first, which makes a start 2
seconds shorter and the process 75 MB smaller. Before that it makes sure of two things that no parent can promise for
it: it ends with the keeper, however the keeper ends, and it is the only engine on its directory.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_KEEPER_GONE, EXIT_DIRECTORY_IN_USE = 70, 71


def main(lock_file: str, keeper_pid: int, config_file: str) -> int:
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != keeper_pid:
        return EXIT_KEEPER_GONE
    descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return EXIT_DIRECTORY_IN_USE
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)

    import chromadb_rust_bindings

    chromadb_rust_bindings.cli(["chroma", "run", config_file])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
