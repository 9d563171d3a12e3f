"""Placeholders in a connection's configuration: `${VAR}`, `${VAR:-default}` and `${file:/path}`; `$$` is a dollar sign.

They are resolved when a connection is opened and never before, so what is stored and shown holds no secret. They may
stand in secret fields and in addresses only; a secret without any is what a person typed, and stays as it is. Users who
define connections decide where a secret goes. The operator therefore decides which names and directories they can
choose from and which hosts each may go to; the service's own settings and files are never among them.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from providers.outbound.redaction import Redactor
from registry.placeholders.addresses_in_values import (
    holds_address,
    is_host,
    is_of_use,
    is_plain_address,
    is_port,
)
from registry.placeholders.configuration_texts import Text, is_typed, mapped, texts
from registry.placeholders.secret_hosts import ANYWHERE, SecretHosts
from schemas.configuration import JsonSchema, tidied
from schemas.connections import Fault
from schemas.errors import InvalidInputError, RagError
from schemas.settings import (
    CONFIG_FILE,
    HOSTED,
    SET_BY_FILE,
    AccessSettings,
    OidcSettings,
    RegistrySettings,
    RetrievalSettings,
    TracingSettings,
    WrapperSettings,
)
from schemas.settings.tracing import HEADERS

SERVICE_KEYS = ("RAG_EMBEDDING_API_KEY", "RAG_CHAT_API_KEY", "RAG_RERANK_API_KEY")
"""Variables with the keys of the connections that the operator's settings describe."""
OWN_VARIABLES = frozenset(
    f"RAG_{field.name.upper()}"
    for settings in (
        WrapperSettings,
        RegistrySettings,
        RetrievalSettings,
        AccessSettings,
        OidcSettings,
        TracingSettings,
    )
    for field in fields(settings)
) | {
    *SERVICE_KEYS,
    CONFIG_FILE,
    HOSTED,
    SET_BY_FILE,
    HEADERS,
    *(f"RAG_{name}" for name in ("API_KEYS", "CHROMA_URL", "CHROMA_TOKEN")),
}
"""Variables that the service reads for itself: no connection gets one, whatever the patterns allow."""
MAX_FILE_BYTES = 64 * 1024
MAX_PLACEHOLDERS = 100
"""Placeholders in one string."""
MAX_TYPED = 1000
"""The number of typed secrets that a process keeps out of its log."""

_TOKEN = re.compile(r"\$\$|\$\{(?P<inside>(?:(?!\$\{)[^}])*)\}|\$\{")  # a match ends where the next "${" begins
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{).)*))?", re.DOTALL)
_FILE = "file:"
_REST = r"(?:/(?:[^$?#\s]|\$\$)*)?"
_ADDRESSES = (
    (re.compile(rf"(\$\{{[^}}]*\}})(?::[0-9]+)?{_REST}"), (is_plain_address,)),
    (re.compile(rf"https?://(\$\{{[^}}]*\}})(?::[0-9]+)?{_REST}"), (is_host,)),
    (re.compile(rf"https?://(\$\{{[^}}]*\}}):(\$\{{[^}}]*\}}){_REST}"), (is_host, is_port)),
    (re.compile(rf"https?://[^$/?#@\s]+:(\$\{{[^}}]*\}}){_REST}"), (is_port,)),
)
"""The places of placeholders in an address, each with checks of its value: a value put in beside a host that the user
chose could carry a secret there."""


class UnresolvedPlaceholderError(InvalidInputError):
    """The value of a placeholder cannot be had; `details.errors` lists `{pointer, message}`."""

    code = "invalid_config"

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(
            "; ".join(dict.fromkeys(fault.message for fault in faults)),
            errors=[{"pointer": fault.pointer, "message": fault.message} for fault in faults],
            error_type="invalid_config",
        )


class _WrongPlaceholderError(RagError):
    """The reason why one placeholder cannot be resolved."""


class _MissingError(_WrongPlaceholderError):
    """The variable or file does not exist now, and may later."""


class Resolved(NamedTuple):
    """A configuration as it is used, and the redactor that knows its secrets; neither may be shown to anybody."""

    config: dict[str, Any]
    redactor: Redactor


class Placeholders:
    """Resolves placeholders.

    Allowed are the variables of `environ` whose names match one of `patterns` (`*_API_KEY`, case-sensitive), except
    those in `own`, and files below `secret_dirs`, except the `own_files`. Each may go to the hosts that `secret_hosts`
    allows. `said` knows every value of a variable or file that was ever resolved, and the last secrets that were typed,
    with what was typed around a placeholder. A default is no secret.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        patterns: Sequence[str] = RegistrySettings.env_patterns,
        secret_dirs: Sequence[str | Path] = RegistrySettings.secret_dirs,
        *,
        secret_hosts: SecretHosts = ANYWHERE,
        own: frozenset[str] = OWN_VARIABLES,
        own_files: Sequence[Path] = (),
    ) -> None:
        self._environ = environ
        self._patterns = tuple(patterns)
        self._secret_dirs = tuple(map(Path, secret_dirs))
        self._secret_hosts = secret_hosts
        self._own = own
        self._own_files = tuple(own_files)
        self._lock = threading.Lock()
        self._values = frozenset[str]()
        self._typed: dict[str, None] = {}
        self.said = Redactor()

    def resolve(
        self,
        config: Mapping[str, Any],
        schema: JsonSchema,
        address: Callable[[Mapping[str, Any]], str | None] = lambda config: None,
    ) -> Resolved:
        """Return the configuration as it is used; `address` returns the URL that a configuration leads to.

        Raises UnresolvedPlaceholderError when any placeholder cannot be resolved.
        """
        wrong = self.faults(config, schema, address)
        if wrong:
            raise UnresolvedPlaceholderError(wrong)
        values, typed = set[str](), set[str]()
        found = tidied(self._resolved(config, schema, values, typed))
        self._remember(values, typed)
        return Resolved(found, Redactor(values | typed))

    def hide(self, typed: Collection[str]) -> None:
        """Have `said` know secrets that a person typed."""
        self._remember(frozenset(), typed)

    def _remember(self, values: Collection[str], typed: Collection[str]) -> None:
        with self._lock:
            is_known = self._typed.keys() >= set(typed) and self._values.issuperset(values)
            for each in typed:
                self._typed.pop(each, None)  # to be the last one
                self._typed[each] = None
            if is_known:
                return
            # Anybody who may test a connection can type any number of them, so only the last are known.
            self._typed = dict.fromkeys(list(self._typed)[-MAX_TYPED:])
            self._values = self._values.union(values)
            self.said = Redactor(self._values.union(self._typed), self.said)

    def faults(
        self,
        config: Any,
        schema: JsonSchema,
        address: Callable[[Mapping[str, Any]], str | None] = lambda config: None,
    ) -> list[Fault]:
        """Return what cannot be resolved; the sentences name variables, never a value."""
        return [fault for fault, _ in self._wrong(config, schema)] or self._misdirected(config, schema, address)

    def forbidden(
        self,
        config: Any,
        schema: JsonSchema,
        address: Callable[[Mapping[str, Any]], str | None] = lambda config: None,
    ) -> list[Fault]:
        """Return the lasting faults: a placeholder that is malformed, stands where it may not, names something that the
        operator does not allow, or would be sent to a host it does not belong to."""
        wrong = self._wrong(config, schema)
        if not wrong:
            return self._misdirected(config, schema, address)
        return [fault for fault, error in wrong if not isinstance(error, _MissingError)]

    def missing(self, config: Any, schema: JsonSchema) -> list[Fault]:
        """Return the passing faults: variables that are not set now, files that do not exist now."""
        return [fault for fault, error in self._wrong(config, schema) if isinstance(error, _MissingError)]

    def _wrong(self, config: Any, schema: JsonSchema) -> list[tuple[Fault, _WrongPlaceholderError]]:
        found: dict[Fault, _WrongPlaceholderError] = {}
        for place in texts(config, schema):
            for error in self._errors(place):
                found.setdefault(Fault(place.pointer, error.message), error)
        return list(found.items())

    def _errors(self, place: Text) -> Iterator[_WrongPlaceholderError]:
        tokens = [token for token in _TOKEN.finditer(place.text) if token.group() != "$$"]
        if tokens and place.field is None:
            yield _WrongPlaceholderError("Placeholders may stand in secrets and in the URL only")
            return
        if len(tokens) > MAX_PLACEHOLDERS:
            yield _WrongPlaceholderError(f"There are {len(tokens)} placeholders, at most {MAX_PLACEHOLDERS} are read")
            return
        checks: Sequence[Callable[[str], bool]] = [lambda value: not holds_address(value)] * len(tokens)
        if place.field == "address" and tokens:
            fitting = [checks for form, checks in _ADDRESSES if form.fullmatch(place.text)]
            checks = fitting[0] if fitting else [lambda value: True] * len(tokens)
            if not fitting and all(token["inside"] is not None for token in tokens):
                yield _WrongPlaceholderError(
                    "In a URL a placeholder stands for the whole address, its host or its port"
                )
        for token, fits in zip(tokens, checks, strict=True):
            try:
                if place.field == "secret" and ":-" in (token["inside"] or "") and not _is_file(token):
                    raise _WrongPlaceholderError("A secret has no default: it would be stored in clear")
                if not fits(self._value_of(token)):
                    what = "key" if place.field == "secret" else "address"
                    raise _WrongPlaceholderError(f"{_called(token)} holds no {what} that may be used here")
            except _WrongPlaceholderError as error:
                yield error

    def _misdirected(
        self, config: Any, schema: JsonSchema, address: Callable[[Mapping[str, Any]], str | None]
    ) -> list[Fault]:
        """Return the strings with a reference bound to other hosts than the one the configuration leads to."""
        if not self._secret_hosts.destinations or not isinstance(config, Mapping):
            return []
        resolved = self._resolved(config, schema, set(), set())
        leads_to = address(resolved)
        urls = [each.text for each in texts(resolved, schema) if each.field == "address"]
        urls += [] if leads_to is None else [leads_to]
        return [
            Fault(place.pointer, f"{reference} may not be sent to this host (RAG_SECRET_HOSTS)")
            for place in texts(config, schema)
            for reference in self.references(place.text)
            if not self._secret_hosts.allows(reference, urls)
        ]

    def names(self, config: Any) -> list[str]:
        """Return the variables that a configuration or string refers to, in order, each once."""
        return [each for each in self.references(config) if not each.startswith(_FILE)]

    def references(self, config: Any) -> list[str]:
        """Return the variables and files (as `file:/path`) that it refers to, without defaults."""
        found = []
        for place in texts(config, {}):
            for token in _TOKEN.finditer(place.text):
                inside = token["inside"] or ""
                variable = _VARIABLE.fullmatch(inside)
                if inside.startswith(_FILE) or variable:
                    found.append(variable["name"] if variable else inside)
        return list(dict.fromkeys(found))

    def available(self) -> list[str]:
        """Return the sorted names of the variables that a placeholder may use and that are set."""
        return sorted(name for name, value in self._environ.items() if self.is_allowed(name) and is_of_use(value))

    def is_allowed(self, name: str) -> bool:
        """Return whether the operator lets placeholders use a variable of that name."""
        return name not in self._own and any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _resolved(
        self, config: Mapping[str, Any], schema: JsonSchema, values: set[str], typed: set[str]
    ) -> dict[str, Any]:
        """Resolve all strings; add what must not be shown to `values` (of variables and files) or `typed`."""

        def put_in(token: re.Match[str]) -> str:
            value = self._value_of(token)
            if token.group() != "$$" and not self._is_default(token):
                values.add(value)
            return value

        def text(place: Text) -> str:
            if place.field == "secret" and is_typed(place.text):
                typed.add(place.text)
                return place.text
            found = _TOKEN.sub(put_in, place.text)
            if place.field == "secret" and found not in values:
                typed.add(found)
            return found

        found: dict[str, Any] = mapped(config, schema, text)
        return found

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
        if not is_of_use(self._environ.get(name, "")):
            raise _WrongPlaceholderError(
                f"The variable {name} holds a URL with credentials, which go nowhere from here"
            )
        # As in a shell, a default also replaces an empty variable.
        value = self._environ.get(name) or default
        if value is None and name not in self._environ:
            raise _MissingError(f"The variable {name} is not set")
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise _WrongPlaceholderError(f"The variable {name} does not hold text in UTF-8") from None
        return value or ""

    def _is_default(self, token: re.Match[str]) -> bool:
        variable = _VARIABLE.fullmatch(token["inside"] or "")
        return variable is not None and variable["default"] is not None and not self._environ.get(variable["name"])

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
            if any(own.exists() and path.samefile(own) for own in self._own_files):
                raise OSError("a file of the service's own")
            return _read_text(path)
        except (OSError, ValueError):
            raise _MissingError("The file of a placeholder cannot be read") from None


def _is_file(token: re.Match[str]) -> bool:
    return (token["inside"] or "").startswith(_FILE)


def _called(token: re.Match[str]) -> str:
    variable = _VARIABLE.fullmatch(token["inside"] or "")
    return f"The variable {variable['name']}" if variable else "The file of a placeholder"


def _read_text(path: Path) -> str:
    # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError("too large")
    return content.decode().removesuffix("\n").removesuffix("\r")
