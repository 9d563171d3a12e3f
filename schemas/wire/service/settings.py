"""Settings on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schemas.settings.in_force import SettingInForce


def settings_answer(settings: Iterable[SettingInForce]) -> dict[str, Any]:
    """Spell the answer of `/api/settings`."""
    return {
        "settings": [
            {
                "name": each.name,
                "value": each.value,
                "default": each.default,
                "origin": each.origin.value,
                "secret": each.is_secret,
            }
            for each in settings
        ]
    }
