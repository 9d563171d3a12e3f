"""Erasures that have begun and have not reached every place yet, in a file, so that a killed one is not forgotten.

It is no table: what is written in a database stays in its files until they are written anew, which is what an erasure
does last.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from schemas.errors import DiskFloorError, UnavailableError
from schemas.storage.erasure import Matched, Target


class PendingErasures:
    """The erasures under way, used by one process at a time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> list[Matched]:
        """Return what is being erased."""
        if not self._file.exists():
            return []
        return [_matched(**each) for each in orjson.loads(bytes.fromhex(self._file.read_text("ascii")))]

    def keep(self, erasures: Sequence[Matched]) -> None:
        """Write them down, safe on the disk, in place of those that were. Without any there is no file.

        Raises DiskFloorError when there is no room for it, and UnavailableError when it fails in another way.
        """
        if not erasures:
            self._file.unlink(missing_ok=True)
            return
        # Not as it is: files are searched for words of the texts, which ids and names may have too.
        told = orjson.dumps(
            list(erasures), default=lambda each: each.hex() if isinstance(each, bytes) else sorted(each)
        )
        content = told.hex().encode()
        incomplete = self._file.with_suffix(".tmp")
        try:
            descriptor = os.open(incomplete, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(descriptor)
            os.replace(incomplete, self._file)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFloorError("The disk is full: what is to be erased could not be written down") from None
            reason = os.strerror(error.errno or 0)
            raise UnavailableError(f"What is to be erased could not be written down: {reason}") from error


def _matched(target: dict[str, Any], probes: Sequence[str], **told: Any) -> Matched:
    sets = {name: frozenset(value) for name, value in target.items() if isinstance(value, list)}
    return Matched(Target(**{**target, **sets}), tuple(map(bytes.fromhex, probes)), **told)
