"""Placeholders in a configuration's strings: `${VAR}`, `${VAR:-default}` and `${file:/path}`; `$$` is a dollar sign.

They are resolved when a connection is opened and never before, so that what is stored and shown holds no secret.
Whoever may define connections may send what a placeholder stands for to any host that may be reached: names and
directories are therefore the operator's to allow.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from schemas.configuration import JsonSchema
from schemas.connections import Fault
from schemas.errors import InvalidInputError, RagError
from schemas.pointers import escaped
from schemas.settings import RegistrySettings

NEVER = frozenset({"RAG_CATALOG_URL"})
"""The service's own database, whatever the patterns say."""
MAX_FILE_BYTES = 64 * 1024
MAX_DEPTH = 32

_TOKEN = re.compile(r"\$\$|\$\{(?P<inside>(?:(?!\$\{)[^}])*)\}|\$\{")  # looks no further than the next one begins
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{).)*))?", re.DOTALL)
_FILE = "file:"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class UnresolvedPlaceholderError(InvalidInputError):
    """Something that a placeholder stands for is not to be had; `details.errors` lists `{pointer, message}`."""

    code = "invalid_config"

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(
            "; ".join(dict.fromkeys(fault.message for fault in faults)),
            errors=[{"pointer": fault.pointer, "message": fault.message} for fault in faults],
            error_type="invalid_config",
        )


class _WrongPlaceholderError(RagError):
    """Why one placeholder cannot be resolved."""


class _MissingError(_WrongPlaceholderError):
    """What it stands for is not there now, and may be later."""


class Resolved(NamedTuple):
    """A configuration as it is used, and what its placeholders stood for: nobody is to be shown either."""

    config: dict[str, Any]
    values: frozenset[str]


class Placeholders:
    """Resolves from `environ` the variables whose names match one of `patterns` (`*_API_KEY`, letters as they are), and
    files below `secret_dirs`. A variable that holds a URL with a password is refused whatever its name."""

    def __init__(
        self,
        environ: Mapping[str, str],
        patterns: Sequence[str] = RegistrySettings.env_patterns,
        secret_dirs: Sequence[str | Path] = RegistrySettings.secret_dirs,
    ) -> None:
        self._environ = environ
        self._patterns = tuple(patterns)
        self._secret_dirs = tuple(map(Path, secret_dirs))

    def resolve(self, config: Mapping[str, Any], schema: JsonSchema) -> dict[str, Any]:
        """The configuration as it is used. A string that is one placeholder and nothing else becomes a number or a
        truth value where the schema wants one. Raises UnresolvedPlaceholderError."""
        return self.resolved(config, schema).config

    def resolved(self, config: Mapping[str, Any], schema: JsonSchema) -> Resolved:
        """Like `resolve`, with what was put in."""
        wrong = self.faults(config)
        if wrong:
            raise UnresolvedPlaceholderError(wrong)
        values: set[str] = set()
        found = {
            name: self._resolve_value(value, schema.get("properties", {}).get(name, {}), values)
            for name, value in config.items()
        }
        return Resolved(found, frozenset(values))

    def faults(self, config: Any) -> list[Fault]:
        """What cannot be resolved. The sentences name variables, never a value."""
        return [fault for fault, _ in self._wrong(config)]

    def forbidden(self, config: Any) -> list[Fault]:
        """The faults that stay: what is no placeholder, or names what the operator does not allow."""
        return [fault for fault, error in self._wrong(config) if not isinstance(error, _MissingError)]

    def missing(self, config: Any) -> list[Fault]:
        """The faults that may go: variables that are not set now, files that are not there."""
        return [fault for fault, error in self._wrong(config) if isinstance(error, _MissingError)]

    def _wrong(self, config: Any) -> list[tuple[Fault, _WrongPlaceholderError]]:
        found: dict[Fault, _WrongPlaceholderError] = {}
        for pointer, text in _strings(config):
            for token in _TOKEN.finditer(text):
                try:
                    self._value_of(token)
                except _WrongPlaceholderError as error:
                    found.setdefault(Fault(pointer, error.message), error)
        return list(found.items())

    def names(self, config: Any) -> list[str]:
        """The variables that a configuration, or a string, speaks of, in its order, each once."""
        return [each for each in self.references(config) if not each.startswith(_FILE)]

    def references(self, config: Any) -> list[str]:
        """The same with files, as `file:/path`; no defaults."""
        found = []
        for _, text in _strings(config):
            for token in _TOKEN.finditer(text):
                inside = token["inside"] or ""
                variable = _VARIABLE.fullmatch(inside)
                if inside.startswith(_FILE) or variable:
                    found.append(variable["name"] if variable else inside)
        return list(dict.fromkeys(found))

    def available(self) -> list[str]:
        """The variables that a placeholder may use and that are set, by name."""
        return sorted(name for name in self._environ if self.is_allowed(name) and not self._has_password(name))

    def is_allowed(self, name: str) -> bool:
        """Whether the operator lets placeholders use a variable of that name."""
        return name not in NEVER and any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _has_password(self, name: str) -> bool:
        try:
            return "@" in urlsplit(self._environ.get(name, "")).netloc
        except ValueError:
            return "@" in self._environ[name]

    def _resolve_value(self, value: Any, schema: JsonSchema, values: set[str]) -> Any:
        if isinstance(value, Mapping):
            fields = schema.get("properties", {})
            return {name: self._resolve_value(each, fields.get(name, {}), values) for name, each in value.items()}
        if isinstance(value, list):
            items = schema.get("items")
            items = items if isinstance(items, Mapping) else {}
            return [self._resolve_value(each, dict(items), values) for each in value]
        if not isinstance(value, str):
            return value

        def put_in(token: re.Match[str]) -> str:
            text = self._value_of(token)
            if token.group() != "$$":
                values.add(text)
            return text

        text = _TOKEN.sub(put_in, value)
        return _converted(text, schema.get("type")) if _is_one_placeholder(value) else text

    def _value_of(self, token: re.Match[str]) -> str:
        inside = token["inside"]
        if token.group() == "$$":
            return "$"
        if inside is not None and inside.startswith(_FILE):
            return self._content_of(inside.removeprefix(_FILE))
        variable = _VARIABLE.fullmatch(inside or "")
        if variable is None:
            raise _WrongPlaceholderError(
                "A placeholder is ${NAME}, ${NAME:-default} or ${file:/path}; $$ is a dollar sign"
            )
        name, default = variable["name"], variable["default"]
        if not self.is_allowed(name):
            raise _WrongPlaceholderError(f"The variable {name} is not among those allowed here (RAG_ENV_PATTERNS)")
        if self._has_password(name):
            raise _WrongPlaceholderError(
                f"The variable {name} holds a URL with credentials, which go nowhere from here"
            )
        # As in a shell, an empty variable is as good as none where there is a default.
        value = self._environ.get(name) or default
        if value is None and name not in self._environ:
            raise _MissingError(f"The variable {name} is not set")
        return value or ""

    def _content_of(self, written: str) -> str:
        try:
            path = Path(written).resolve()
            directories = [directory.resolve() for directory in self._secret_dirs]
        except (OSError, RuntimeError, ValueError):
            raise _WrongPlaceholderError("The file of a placeholder cannot be read") from None
        if not written.startswith("/") or not any(path.is_relative_to(directory) for directory in directories):
            raise _WrongPlaceholderError(
                "The file of a placeholder is not below a directory that is allowed here (RAG_SECRET_DIRS)"
            )
        try:
            return _read_text(path)
        except (OSError, ValueError):
            raise _MissingError("The file of a placeholder cannot be read") from None


def secret_faults(config: Mapping[str, Any], schema: JsonSchema) -> list[Fault]:
    """Which secret fields (`writeOnly`, at any depth) hold something else than placeholders: it would be stored."""
    return [
        Fault(
            pointer, f"{label} is a secret: store a placeholder like ${{NAME_API_KEY}} or ${{file:/path}} instead of it"
        )
        for pointer, label, value in _secret_values(config, schema)
        if value is not None and not (isinstance(value, str) and _is_only_placeholders(value))
    ]


def _secret_values(value: Any, schema: JsonSchema, pointer: str = "") -> Iterator[tuple[str, str, Any]]:
    if not isinstance(value, Mapping) or pointer.count("/") > MAX_DEPTH:
        return
    for name, field in schema.get("properties", {}).items():
        if name in value and isinstance(field, Mapping):
            place = f"{pointer}/{escaped(name)}"
            if field.get("writeOnly"):
                yield place, str(field.get("title", name)), value[name]
            else:
                yield from _secret_values(value[name], dict(field), place)


def _strings(value: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(pointer, string) of all strings."""
    if depth > MAX_DEPTH:
        raise InvalidInputError(
            "The configuration is nested too deeply",
            code="invalid_config",
            pointer=pointer,
            error_type="invalid_config",
        )
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _strings(each, f"{pointer}/{escaped(name)}", depth + 1)
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from _strings(each, f"{pointer}/{position}", depth + 1)


def _is_one_placeholder(text: str) -> bool:
    token = _TOKEN.fullmatch(text)
    return token is not None and token["inside"] is not None


def _is_only_placeholders(text: str) -> bool:
    return bool(re.fullmatch(r"(?:\$\{[^}]+\})+", text))


def _converted(text: str, kind: Any) -> Any:
    """What cannot be converted stays a string, which the schema then refuses."""
    kinds = kind if isinstance(kind, list) else [kind]
    if "string" in kinds:
        return text
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if ("integer" in kinds or "number" in kinds) and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in kinds:
        try:
            number = float(text)
        except ValueError:
            return text
        return number if math.isfinite(number) else text
    return text


def _read_text(path: Path) -> str:
    # Opening a FIFO would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError("too large")
    return content.decode().removesuffix("\n").removesuffix("\r")
