"""Lines of the audit log for commands that change a data directory without asking its service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from schemas.access.callers import Scope

if TYPE_CHECKING:
    from schemas.settings import WrapperSettings
    from wrapper.audit.audit_log import AuditLog

METHOD, OK = "COMMAND", 200
"""What lines of commands have as their method, and as the status of one that was carried out."""


@contextmanager
def recorded_commands(settings: WrapperSettings) -> Iterator[AuditLog]:
    """Give the audit log of a data directory; it stays its owner's when root types commands."""
    from schemas.settings import read_access_settings
    from wrapper.audit.opening import open_recorder
    from wrapper.backups.files import give_to_owner

    with closing(open_recorder(settings, read_access_settings()).audit_log) as log:
        try:
            yield log
        finally:
            with suppress(OSError):  # what was carried out was; the service says what it cannot write to
                for made in (log.folder, *log.folder.iterdir()):
                    give_to_owner(made, settings.data_dir)


def record(log: AuditLog, command: str, *subjects: str) -> None:
    """Record that a command was carried out, as `record(log, "keys revoke", *ids_of_the_keys)`. Nobody knows who typed
    it, so its line has no key. Raises AuditUnwritableError."""
    from schemas.storage.audit import AuditEvent

    event = AuditEvent(METHOD, command, OK, scope=Scope.ADMIN.value, subject=",".join(subjects) or None)
    log.append(event, checked=False)
