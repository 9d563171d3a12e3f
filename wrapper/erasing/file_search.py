"""Searches files for bytes of what was erased, in a process of its own.

The files of the catalogue are among them. A process that has them open and closes another descriptor of one of them
loses all its POSIX locks on it, whatever SQLite believes (https://www.sqlite.org/howtocorrupt.html, 2.2). The next
process that opens the catalogue would then take itself for the only one and remove the log that the others write.

That process runs this file alone, so it imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BLOCK_BYTES = 8 << 20


def search_files(folder: Path, probes: Sequence[bytes]) -> dict[Path, list[bytes]]:
    """Return the files of the folder, and below it, that have any of the probes, each with those that it has.

    Raises OSError when the files cannot be read.
    """
    if not probes:
        return {}
    question = {"folder": os.fsdecode(folder), "probes": [probe.hex() for probe in probes]}
    done = subprocess.run(
        [sys.executable, "-I", __file__],
        input=json.dumps(question).encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(said[-1] if said else f"the process ended with {done.returncode}")
    found = json.loads(done.stdout)
    return {Path(file): [bytes.fromhex(probe) for probe in has] for file, has in found.items()}


def _files_with(folder: Path, probes: Sequence[bytes]) -> dict[Path, list[bytes]]:
    found: dict[Path, list[bytes]] = {}
    for directory, _, names in os.walk(folder, onerror=_unless_it_is_none_of_ours):
        for file in sorted(Path(directory, name) for name in names):
            with suppress(FileNotFoundError):
                if file.is_file() and not file.is_symlink() and (has := _held_by(file, probes)):
                    found[file] = has
    return found


def _unless_it_is_none_of_ours(error: OSError) -> None:
    # Uploads come and go; what may not be listed was not written by the service, such as lost+found.
    if not isinstance(error, FileNotFoundError | PermissionError):
        raise error


def _held_by(file: Path, probes: Sequence[bytes]) -> list[bytes]:
    overlap = max(map(len, probes))
    found: set[bytes] = set()
    with file.open("rb") as opened:
        before = b""
        while block := opened.read(BLOCK_BYTES):
            window = before + block
            found.update(probe for probe in probes if probe not in found and probe in window)
            before = window[-overlap:]
    return [probe for probe in probes if probe in found]


def _answer() -> None:
    question = json.load(sys.stdin)
    found = _files_with(Path(question["folder"]), [bytes.fromhex(probe) for probe in question["probes"]])
    json.dump({os.fsdecode(file): [probe.hex() for probe in has] for file, has in found.items()}, sys.stdout)


if __name__ == "__main__":
    _answer()
