"""Opens the audit log of a data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from schemas.settings import WrapperSettings
from schemas.settings.access import AccessSettings
from wrapper.access.configured_key import settings_cleaner
from wrapper.audit.audit_log import FOLDER, AuditLog
from wrapper.audit.recording import Recorder

KINDS_OF_WORK = 4
"""The lanes of requests that have as many places as there are threads, or fewer."""


def open_recorder(
    settings: WrapperSettings, access: AccessSettings, *, may_store: Callable[[], bool] = lambda: True
) -> Recorder:
    """Return what records the requests of a service; nothing is written before the first one."""
    in_each_process = KINDS_OF_WORK * settings.threads + settings.service_threads + settings.max_queue
    log = AuditLog(
        audit_folder(settings.data_dir),
        max_bytes=access.audit_max_mb << 20,
        requests_at_once=settings.workers * in_each_process,
        clean=settings_cleaner(access),
    )
    return Recorder(log, with_reads=access.audit_reads, may_store=may_store)


def audit_folder(data_dir: Path) -> Path:
    return data_dir / FOLDER
