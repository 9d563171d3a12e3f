"""Placeholders in configurations: `${VAR}`, `${VAR:-default}`, `${file:/path}`; `$$` is a dollar sign.

They stand for what is known only where the service runs, and are resolved when a connection is used, never before.
Whoever may define connections can send what a placeholder stands for to a host of their choice, so the operator says
which variables may be named and where files may lie.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from schemas.configuration import JsonSchema, secrets
from schemas.connections import Fault, InvalidConfigurationError

NEVER = ("RAG_CATALOG_URL",)
"""Variables whose values hold a password of the service itself."""
MAX_FILE_BYTES = 16_384
FILE = "file:"

_TOKEN = re.compile(r"\$\$|\$\{(?P<inside>[^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONLY_PLACEHOLDERS = re.compile(r"(?:\$\{[^{}]*\})+")
_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class _UnresolvableError(Exception):
    """Why a placeholder stands for nothing; the sentence holds names only."""


class _Placeholder(NamedTuple):
    """`reference` is a variable's name, or `file:` and a path. `default` is None when there is none."""

    reference: str
    default: str | None


class Placeholders:
    """What configurations may refer to. `environ` is the process's environment, `patterns` are those of
    `RAG_ENV_PATTERNS`, `secret_dirs` the directories of `RAG_SECRET_DIRS`."""

    def __init__(self, environ: Mapping[str, str], patterns: Sequence[str], secret_dirs: Sequence[str]) -> None:
        self._environ = environ
        self._patterns = tuple(patterns)
        self._secret_dirs = tuple(secret_dirs)

    def resolve(self, config: Mapping[str, Any], schema: JsonSchema, provider: str = "") -> dict[str, Any]:
        """The configuration with what its placeholders stand for. What they make of a field becomes the number or
        boolean that its schema asks for. Raises InvalidConfigurationError naming every one that stands for nothing."""
        wrong: list[Fault] = []
        resolved = {name: self._resolved(value, f"/{_escaped(name)}", wrong) for name, value in config.items()}
        if wrong:
            raise InvalidConfigurationError(provider, wrong)
        fields = schema.get("properties", {})
        return {
            name: _converted(value, fields.get(name, {})) if value != config[name] else value
            for name, value in resolved.items()
        }

    def faults(self, config: Mapping[str, Any]) -> list[Fault]:
        """What may not be kept: placeholders that are none, forbidden names, files in forbidden places. That a variable
        is not set, or a file not there, is no fault: it may be later."""
        return [
            Fault(pointer, reason)
            for pointer, text in _strings(config)
            for placeholder in _placeholders(text)
            if (reason := self._refusal(placeholder)) is not None
        ]

    def missing(self, config: Mapping[str, Any]) -> list[Fault]:
        """The placeholders without a default that stand for nothing now."""
        found = []
        for pointer, text in _strings(config):
            for placeholder in _placeholders(text):
                if self._refusal(placeholder) is not None:
                    continue
                try:
                    self._value(placeholder)
                except _UnresolvableError as error:
                    found.append(Fault(pointer, str(error)))
        return found

    def names(self, config: Mapping[str, Any]) -> list[str]:
        """The variables and files that a configuration refers to, without defaults; each once, in order."""
        found = [each.reference for _, text in _strings(config) for each in _placeholders(text)]
        return list(dict.fromkeys(found))

    def variables(self) -> list[dict[str, Any]]:
        """The variables that may be named and are set, by name. Their values are nobody's business."""
        return [self._judged(name) for name in sorted(self._environ) if self._may_name(name)]

    def judge(self, names: Sequence[str], text: str) -> dict[str, Any]:
        """Which of these variables, and of those in a text with placeholders, may be named and are set."""
        in_text = [each.reference for each in _placeholders(text) if not each.reference.startswith(FILE)]
        judged = [self._judged(name) for name in dict.fromkeys([*names, *in_text])]
        return {"valid": all(each["allowed"] and each["set"] for each in judged), "variables": judged}

    def suggestions(self, provider: str, field: str) -> list[dict[str, Any]]:
        """Variables that fit a provider's field, best first: those that name both, then either."""
        wanted = [set(_words(provider)), set(_words(field))]
        ranked = []
        for each in self.variables():
            has = set(_words(each["name"]))
            score = sum(bool(has & words) * (2 - place) for place, words in enumerate(wanted))
            if score:
                ranked.append((-score, len(has), each["name"], each))
        return [each for *_, each in sorted(ranked, key=lambda item: item[:3])]

    def _resolved(self, value: Any, pointer: str, wrong: list[Fault]) -> Any:
        if isinstance(value, str):
            return self._filled_in(value, pointer, wrong)
        if isinstance(value, dict):
            return {name: self._resolved(each, f"{pointer}/{_escaped(name)}", wrong) for name, each in value.items()}
        if isinstance(value, list):
            return [self._resolved(each, f"{pointer}/{index}", wrong) for index, each in enumerate(value)]
        return value

    def _filled_in(self, text: str, pointer: str, wrong: list[Fault]) -> str:
        def fill(match: re.Match[str]) -> str:
            inside = match["inside"]
            if inside is None:
                return "$"
            placeholder = _placeholder(inside)
            refusal = self._refusal(placeholder)
            if refusal is None:
                try:
                    return self._value(placeholder)
                except _UnresolvableError as error:
                    refusal = str(error)
            wrong.append(Fault(pointer, refusal))
            return ""

        return _TOKEN.sub(fill, text)

    def _refusal(self, placeholder: _Placeholder) -> str | None:
        reference = placeholder.reference
        if reference.startswith(FILE):
            if self._place_of(reference) is None:
                return "A file of a placeholder must lie in a directory that RAG_SECRET_DIRS allows"
            return None
        if not _NAME.fullmatch(reference):
            return "A placeholder must be ${VARIABLE}, ${VARIABLE:-default} or ${file:/path}"
        if not self._may_name(reference):
            return f"The variable {reference} is not one that RAG_ENV_PATTERNS allows"
        return None

    def _may_name(self, name: str) -> bool:
        return name not in NEVER and any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _judged(self, name: str) -> dict[str, Any]:
        allowed = self._may_name(name)
        # Whether a forbidden one is set is not told either.
        return {"name": name, "allowed": allowed, "set": allowed and bool(self._environ.get(name))}

    def _value(self, placeholder: _Placeholder) -> str:
        reference, default = placeholder
        if not reference.startswith(FILE):
            value = self._environ.get(reference) or default
            if value is None:
                raise _UnresolvableError(f"The variable {reference} is not set")
            return value
        place = self._place_of(reference)
        try:
            if place is None:
                raise OSError
            return _read(place)
        except (OSError, UnicodeDecodeError):
            if default is not None:
                return default
            raise _UnresolvableError("The file of a placeholder cannot be read") from None

    def _place_of(self, reference: str) -> Path | None:
        """Where a file really lies, links followed; None outside of the allowed directories."""
        path = Path(reference.removeprefix(FILE))
        if not path.is_absolute() or "\x00" in reference:
            return None
        try:
            real = path.resolve()
            allowed = [Path(each).resolve() for each in self._secret_dirs]
        except (OSError, RuntimeError):
            return None
        return real if any(real.is_relative_to(each) and real != each for each in allowed) else None


def secret_faults(config: Mapping[str, Any], schema: JsonSchema) -> list[Fault]:
    """The secrets that are given in clear, which are not kept: all of a secret must be placeholders."""
    found = []
    for name, field in schema.get("properties", {}).items():
        value = config.get(name)
        if name not in secrets(schema) or value is None:
            continue
        if not (isinstance(value, str) and _ONLY_PLACEHOLDERS.fullmatch(value)):
            sentence = f"{field.get('title', name)} is not kept in clear: use a placeholder, ${{VARIABLE}}"
            found.append(Fault(f"/{_escaped(name)}", sentence))
    return found


def _read(path: Path) -> str:
    # Not blocking: what looks like a file may be a pipe that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            raise OSError
        return os.read(descriptor, MAX_FILE_BYTES).decode().removesuffix("\n").removesuffix("\r")
    finally:
        os.close(descriptor)


def _strings(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """(JSON Pointer, text) of every string in a configuration."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _strings(each, f"{pointer}/{_escaped(name)}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _strings(each, f"{pointer}/{index}")


def _placeholders(text: str) -> Iterator[_Placeholder]:
    for match in _TOKEN.finditer(text):
        if match["inside"] is not None:
            yield _placeholder(match["inside"])


def _placeholder(inside: str) -> _Placeholder:
    reference, separator, default = inside.partition(":-")
    return _Placeholder(reference, default if separator else None)


def _converted(value: Any, field: JsonSchema) -> Any:
    """A text as the number or boolean that the field asks for; where it cannot be one, the schema will say so."""
    if not isinstance(value, str):
        return value
    try:
        match field.get("type"):
            case "integer":
                return int(value)
            case "number":
                return float(value)
            case "boolean":
                return _TRUTHS[value.strip().lower()]
    except (ValueError, KeyError):
        pass
    return value


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def _escaped(part: Any) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
