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
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

BLOCK_BYTES = 8 << 20


def search_files(
    folder: Path, probes: Sequence[bytes], holders: Mapping[Path, str]
) -> tuple[dict[bytes, str], list[str]]:
    """Return (those probes that a file of the folder or below has, with the first name of its path; those holders
    whose files have any of the probes). The files of holders are not searched for the first.

    Raises OSError when the files cannot be read.
    """
    if not probes:
        return {}, []
    question = {
        "folder": os.fsdecode(folder),
        "probes": [probe.hex() for probe in probes],
        "holders": {os.fsdecode(file): holder for file, holder in holders.items()},
    }
    done = subprocess.run(
        [sys.executable, "-I", __file__],
        input=json.dumps(question).encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise OSError(said[-1] if said else f"the process ended with {done.returncode}")
    found, elsewhere = json.loads(done.stdout)
    return {bytes.fromhex(probe): name for probe, name in found.items()}, elsewhere


def _files_with(folder: Path, probes: Sequence[bytes], but: Collection[Path]) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for directory, _, names in os.walk(folder, onerror=_unless_it_is_none_of_ours):
        for file in sorted(Path(directory, name) for name in names):
            left = [probe for probe in probes if probe not in found]
            with suppress(FileNotFoundError):
                if left and file not in but and file.is_file() and not file.is_symlink():
                    found |= dict.fromkeys(_held_by(file, left), file.relative_to(folder).parts[0])
    return found


def _unless_it_is_none_of_ours(error: OSError) -> None:
    # Uploads come and go; what may not be listed was not written by the service, such as lost+found.
    if not isinstance(error, FileNotFoundError | PermissionError):
        raise error


def _holders_with(holders: Mapping[Path, str], probes: Sequence[bytes]) -> list[str]:
    found = []
    for file, holder in holders.items():
        with suppress(FileNotFoundError):
            if _held_by(file, probes):
                found.append(holder)
    return found


def _held_by(file: Path, probes: Sequence[bytes]) -> set[bytes]:
    overlap = max(map(len, probes))
    found: set[bytes] = set()
    with file.open("rb") as opened:
        before = b""
        while block := opened.read(BLOCK_BYTES):
            window = before + block
            found.update(probe for probe in probes if probe in window)
            before = window[-overlap:]
    return found


def _answer() -> None:
    question = json.load(sys.stdin)
    probes = [bytes.fromhex(probe) for probe in question["probes"]]
    holders = {Path(file): holder for file, holder in question["holders"].items()}
    found = _files_with(Path(question["folder"]), probes, holders)
    told = {probe.hex(): os.fsencode(name).decode(errors="backslashreplace") for probe, name in found.items()}
    json.dump([told, _holders_with(holders, probes)], sys.stdout)


if __name__ == "__main__":
    _answer()
