"""Answers that are numbers, of which some may be none."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from providers.outbound.json_client import Answer
from providers.outbound.vendor_dialect import VendorDialect
from schemas.errors import UnavailableError


class NumberDialect(VendorDialect):
    """Reads NaN, which JSON has not but servers in Python write: once it is read, it tells which text it spoils."""

    def parsed(self, answer: Answer) -> Any:
        try:
            return super().parsed(answer)
        except UnavailableError:
            if b"NaN" in answer.content:
                with suppress(ValueError):
                    return json.loads(answer.content)
            raise
