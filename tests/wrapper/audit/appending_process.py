"""A process that appends numbered lines: `python appending_process.py FOLDER NAME COUNT MAX_BYTES`.

It prints the number of each line once that is written. A COUNT of 0 means until it is killed.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from schemas.storage.audit import AuditEvent
from wrapper.audit.audit_log import AuditLog


def main(folder: str, name: str, most: str, max_bytes: str) -> None:
    log = AuditLog(Path(folder), max_bytes=int(max_bytes), requests_at_once=16)
    for number in range(int(most)) if most != "0" else count():
        log.check()
        log.append(AuditEvent("POST", "/collections", 201, key_id=name, count=number), checked=True)
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
