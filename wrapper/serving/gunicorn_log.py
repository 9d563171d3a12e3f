"""gunicorn's own lines in the format of the service's log."""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger

from schemas.access.credentials_in_text import Cleaner, thorough, without_credentials
from wrapper.observing.captured_lines import Forwarding


class ServiceLog(Logger):
    """What gunicorn logs with. Every line is cleaned: what is not HTTP is quoted in one."""

    clean: Cleaner = staticmethod(thorough(without_credentials))

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for log in (self.error_log, self.access_log):
            log.handlers = [Forwarding("gunicorn", self.clean)]

    def clean_with(self, clean: Cleaner) -> None:
        self.clean = clean
        self.setup(self.cfg)
