"""The settings in force, as an administrator may see them: neither secrets nor where files lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from schemas.access.credentials_in_text import without_credentials
from schemas.settings.environment import PREFIX
from schemas.settings.known import SET_BY_FILE


class Origin(StrEnum):
    """Where a setting's value comes from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A setting with its value as text, empty for none; the value of a secret is None, whether it has one or not."""

    name: str
    value: str | None
    default: str | None
    origin: Origin
    is_secret: bool


def settings_in_force(settings: Iterable[Any], environ: Mapping[str, str] | None = None) -> tuple[SettingInForce, ...]:
    """Return what each setting of these dataclasses is, in their order."""
    environ = os.environ if environ is None else environ
    by_file = set(environ.get(SET_BY_FILE, "").split(","))
    found = []
    for each in settings:
        default = type(each)()
        for field in fields(each):
            name = f"{PREFIX}{field.name.upper()}"
            is_secret = not field.repr
            origin = Origin.FILE if name in by_file else Origin.ENVIRONMENT if name in environ else Origin.DEFAULT
            shown, usual = (_spelled(getattr(of, field.name)) for of in (each, default))
            found.append(
                SettingInForce(name, None if is_secret else shown, None if is_secret else usual, origin, is_secret)
            )
    return tuple(found)


def _spelled(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list | frozenset):
        return ", ".join(_spelled(each) for each in value)
    text = without_credentials(str(value))
    # Where files of the machine lie is nobody's business; which one is meant can be told by its name.
    return f"…/{Path(text).name}" if text.startswith("/") else text
