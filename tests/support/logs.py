"""Collect what modules log in a list that grows, even what the configured loggers leave out."""

from typing import Any

import pytest
import structlog


def logs_of(monkeypatch: pytest.MonkeyPatch, *modules: str) -> list[dict[str, Any]]:
    """Collect the entries that the loggers called `log` in these modules get from now on, in their order."""
    entries: list[dict[str, Any]] = []

    def keep(_logger: Any, _method: str, entry: Any) -> str:
        entries.append(dict(entry))
        raise structlog.DropEvent

    for module in modules:
        monkeypatch.setattr(f"{module}.log", structlog.wrap_logger(None, [keep], structlog.BoundLogger))
    return entries
