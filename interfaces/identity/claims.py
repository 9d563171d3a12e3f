"""The table from what a token claims to what its bearer may do: `RAG_OIDC_CLAIMS`, a YAML file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from schemas.access.callers import INCLUDED, Scope
from schemas.errors import ConfigurationError, InvalidInputError
from schemas.names import asked_collections

SCOPE_CLAIMS = (("scope",), ("scp",))
"""The claims whose text is a list with spaces in it (RFC 9068, 2.2.3), which clients ask for by these names. In any
other claim a text is one value, because a value such as a department may have spaces of its own."""
MAX_FILE_BYTES = 1_000_000
UNASKED = frozenset({Scope.ADMIN, Scope.CONNECT, Scope.METRICS})
"""The scopes that clients are not invited to ask for: they ask for everything they are offered."""

ClaimPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """The claim that gives scopes, and the scopes that each of its values gives."""

    claim: ClaimPath = ("scope",)
    given: Mapping[str, frozenset[Scope]] = field(
        default_factory=lambda: {each.value: frozenset({each}) for each in Scope}
    )


@dataclass(frozen=True, slots=True)
class CollectionRule:
    """The claim that gives collections, and the names or beginnings with `*` that each of its values gives."""

    claim: ClaimPath
    given: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ClaimsTable:
    """The rules by which claims become rights. Without a rule for collections every user has all of them."""

    scopes: ScopeRule = field(default_factory=ScopeRule)
    collections: CollectionRule | None = None

    def scopes_of(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        """Return the scopes that the claims give, which may be none."""
        given = self.scopes.given
        return frozenset().union(*(given.get(each, ()) for each in values(claims, self.scopes.claim)))

    def collections_of(self, claims: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the names and beginnings of the collections that the claims give: none at all when no value is in the
        table, None for all collections."""
        if self.collections is None:
            return None
        given = self.collections.given
        found = (pattern for each in values(claims, self.collections.claim) for pattern in given.get(each, ()))
        patterns = tuple(dict.fromkeys(found))
        return None if "*" in patterns else patterns

    def offered(self) -> tuple[str, ...] | None:
        """Return the values that a client may ask its provider for, None when no request makes the provider put them
        into the claim."""
        if self.scopes.claim not in SCOPE_CLAIMS:
            return None
        return tuple(each for each, scopes in self.scopes.given.items() if not scopes & UNASKED)

    def asked_for(self, scope: Scope) -> str | None:
        """Return the value that a client asks its provider for to get a scope, the one with the fewest rights; None
        when there is none."""
        if self.scopes.claim not in SCOPE_CLAIMS:
            return None
        granted = {
            value: frozenset().union(*(INCLUDED[each] for each in scopes))
            for value, scopes in self.scopes.given.items()
        }
        fitting = [value for value, rights in granted.items() if scope in rights]
        return min(fitting, key=lambda value: len(granted[value]), default=None)


def values(claims: Mapping[str, Any], path: ClaimPath) -> tuple[str, ...]:
    """Return the texts under a claim, which is a text or a list of texts. A claim of another kind has none."""
    found: Any = claims
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return tuple(found.split()) if path in SCOPE_CLAIMS else (found,)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def read_claims_table(path: str) -> ClaimsTable:
    """Return the table in a file, the usual one when no file is named. Raises ConfigurationError, which says what is
    wrong and where."""
    if not path:
        return ClaimsTable()
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise _wrong(path, f"has more than {MAX_FILE_BYTES:,} bytes")
        written = yaml.load(content, Loader=_UniqueKeys)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise _wrong(path, f"cannot be read: {' '.join(str(error).split())}") from None
    table = _Reader(path)
    table.only(written, "", ("scopes", "collections"))
    return ClaimsTable(
        table.scope_rule(written["scopes"]) if "scopes" in written else ScopeRule(),
        table.collection_rule(written["collections"]) if "collections" in written else None,
    )


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key written twice: the later one would silently take the rights of the earlier one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for name, times in names.items():
            if times > 1:
                raise yaml.constructor.ConstructorError(None, None, f"'{name}' stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


class _Reader:
    """Reads the parts of one file and says by their names what is wrong with them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def scope_rule(self, written: Any) -> ScopeRule:
        self.only(written, "scopes", ("claim", "map"))
        claim = self._claim(written, "scopes")
        return ScopeRule(claim) if "map" not in written else ScopeRule(claim, self._map(written, "scopes", _scopes))

    def collection_rule(self, written: Any) -> CollectionRule:
        self.only(written, "collections", ("claim", "map"))
        return CollectionRule(self._claim(written, "collections"), self._map(written, "collections", _patterns))

    def only(self, written: Any, place: str, names: tuple[str, ...]) -> None:
        """Raise ConfigurationError unless a part maps some of these names."""
        where = f"{place} " if place else ""
        if not isinstance(written, dict):
            raise _wrong(self._path, f"{where}must map {' and '.join(names)}")
        for name in written:
            if name not in names:
                raise _wrong(self._path, f"{where}has '{name}', which means nothing: it may have {', '.join(names)}")

    def _claim(self, written: dict[str, Any], place: str) -> ClaimPath:
        claim = written.get("claim")
        path = (claim,) if isinstance(claim, str) else tuple(claim) if isinstance(claim, list) else ()
        if not path or not all(isinstance(each, str) and each for each in path):
            raise _wrong(self._path, f"{place}.claim must be the name of a claim, or the list of names that lead to it")
        return path

    def _map(self, written: dict[str, Any], place: str, read: Callable[[list[str]], Iterable[Any]]) -> dict[str, Any]:
        mapped = written.get("map")
        if not isinstance(mapped, dict) or not mapped:
            raise _wrong(self._path, f"{place}.map must map values of the claim to what they give")
        for value, given in mapped.items():
            if not isinstance(value, str):
                raise _wrong(self._path, f"{place}.map has {value!r}, which is no text: put it in quotes")
            if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
                raise _wrong(self._path, f"{place}.map.{value} must be a list of texts, as in [read]")
        try:
            return {value: read(given) for value, given in mapped.items()}
        except InvalidInputError as error:
            raise _wrong(self._path, f"{place}.map: {error.message}") from None


def _scopes(given: list[str]) -> frozenset[Scope]:
    known = {each.value for each in Scope}
    for each in given:
        if each not in known:
            raise InvalidInputError(f"'{each}' is no scope: there are {', '.join(Scope)}")
    return frozenset(map(Scope, given))


def _patterns(given: list[str]) -> tuple[str, ...]:
    return asked_collections({"collections": given}) or ()


def _wrong(path: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"RAG_OIDC_CLAIMS: {path} {what}")
