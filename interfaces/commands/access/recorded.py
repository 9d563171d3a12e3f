"""Lines of the audit log for commands that change a data directory without asking its service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from schemas.access.callers import Scope

if TYPE_CHECKING:
    from schemas.settings import WrapperSettings
    from wrapper.audit.audit_log import AuditLog

# What takes long to import is imported where it is used, so that help and usage errors are quick.

METHOD, OK = "COMMAND", 200
"""What lines of commands have as their method, and as the status of one that was carried out."""


class CommandLog:
    """Records commands in an audit log. Nobody knows who typed them, so their lines have no key."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def check(self) -> None:
        """Raise AuditUnwritableError when there is no room for a line."""
        self._log.check()

    def record(self, command: str, *subjects: str) -> None:
        """Record that a command was carried out, as `record("keys revoke", *ids_of_the_keys)`.

        Raises AuditUnwritableError.
        """
        from schemas.storage.audit import AuditEvent

        event = AuditEvent(METHOD, command, OK, scope=Scope.ADMIN.value, subject=",".join(subjects) or None)
        self._log.append(event, checked=False)


@contextmanager
def recorded_commands(settings: WrapperSettings) -> Iterator[CommandLog]:
    """Give what records commands in the audit log of a data directory; it stays its owner's when root types them."""
    from schemas.settings import read_access_settings
    from wrapper.audit.opening import open_recorder
    from wrapper.backups.files import give_to_owner

    with closing(open_recorder(settings, read_access_settings()).audit_log) as log:
        try:
            yield CommandLog(log)
        finally:
            with suppress(OSError):  # what was carried out was; the service says what it cannot write to
                for made in (log.folder, *log.folder.iterdir()):
                    give_to_owner(made, settings.data_dir)
