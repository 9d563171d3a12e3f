"""The table from what a token claims to what its bearer may do: `RAG_OIDC_CLAIMS`, a YAML file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml

from schemas.access.callers import INCLUDED, Scope
from schemas.errors import ConfigurationError, InvalidInputError
from schemas.names import MAX_COLLECTIONS, asked_collections

SCOPE_CLAIMS = (("scope",), ("scp",))
"""The claims whose text is a list with spaces in it (RFC 9068, 2.2.3), which clients ask for by these names. In any
other claim a text is one value, because a value such as a department may have spaces of its own."""
MAX_FILE_BYTES = 1_000_000
UNASKED = frozenset({Scope.ADMIN, Scope.CONNECT, Scope.METRICS})
"""The scopes that clients are not invited to ask for: they ask for everything they are offered."""

ClaimPath = tuple[str, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """The claim that gives something, and what each of its values gives: scopes, or names of collections, or beginnings
    of names with `*`."""

    claim: ClaimPath
    given: Mapping[str, tuple[T, ...]]


OWN_NAMES = {each.value: (each,) for each in Scope}
"""What our own names of scopes give."""


@dataclass(frozen=True, slots=True)
class ClaimsTable:
    """The rules by which claims become rights. Without a rule for collections every user has all of them."""

    scopes: Rule[Scope] = Rule(("scope",), OWN_NAMES)
    collections: Rule[str] | None = None

    def scopes_of(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        """Return the scopes that the claims give, which may be none."""
        return frozenset(_given(self.scopes, claims))

    def collections_of(self, claims: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the names and beginnings of the collections that the claims give: none at all when no value is in the
        table, None for all collections."""
        if self.collections is None:
            return None
        patterns = tuple(dict.fromkeys(_given(self.collections, claims)))
        return None if "*" in patterns else patterns

    def offered(self) -> tuple[str, ...] | None:
        """Return the values that a client may ask its provider for, None when no request makes the provider put them
        into the claim."""
        if self.scopes.claim not in SCOPE_CLAIMS:
            return None
        return tuple(each for each, scopes in self.scopes.given.items() if UNASKED.isdisjoint(scopes))

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


def _given(rule: Rule[T], claims: Mapping[str, Any]) -> Iterator[T]:
    for value in values(claims, rule.claim):
        yield from rule.given.get(value, ())


def read_claims_table(path: str) -> ClaimsTable:
    """Return the table in a file, the usual one when no file is named. Raises ConfigurationError, which says what is
    wrong and where."""
    if not path:
        return ClaimsTable()
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise InvalidInputError(f"has more than {MAX_FILE_BYTES:,} bytes")
        return _table(yaml.load(content, Loader=_UniqueKeys))
    except InvalidInputError as error:
        raise ConfigurationError(f"RAG_OIDC_CLAIMS: {path} {error.message}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(f"RAG_OIDC_CLAIMS: {path} cannot be read: {reason}") from None


class _UniqueKeys(yaml.SafeLoader):
    """A loader that refuses a key written twice: the later one would silently take the rights of the earlier one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for name, times in names.items():
            if times > 1:
                raise yaml.constructor.ConstructorError(None, None, f"'{name}' stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _table(written: Any) -> ClaimsTable:
    """Return the table that is written. Raises InvalidInputError, as all below do: what is wrong, and where."""
    _check_names(written, "", ("scopes", "collections"))
    rules: dict[str, Any] = {}
    if "scopes" in written:
        rules["scopes"] = _rule(written["scopes"], "scopes", _scopes, OWN_NAMES)
    if "collections" in written:
        rules["collections"] = _rule(written["collections"], "collections", _patterns)
    return ClaimsTable(**rules)


def _rule(
    written: Any,
    place: str,
    read: Callable[[list[str]], tuple[T, ...]],
    without_map: Mapping[str, tuple[T, ...]] | None = None,
) -> Rule[T]:
    _check_names(written, f"{place} ", ("claim", "map"))
    claim = written.get("claim")
    path = (claim,) if isinstance(claim, str) else tuple(claim) if isinstance(claim, list) else ()
    if not path or not all(isinstance(each, str) and each for each in path):
        raise InvalidInputError(f"{place}.claim must be the name of a claim, or the list of names that lead to it")
    if without_map is not None and "map" not in written:
        return Rule(path, without_map)
    mapped = written.get("map")
    if not isinstance(mapped, dict) or not mapped:
        raise InvalidInputError(f"{place}.map must map values of the claim to what they give")
    for value, given in mapped.items():
        if not isinstance(value, str):
            raise InvalidInputError(f"{place}.map has {value!r}, which is no text: put it in quotes")
        if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
            raise InvalidInputError(f"{place}.map.{value} must be a list of texts, as in [read]")
    try:
        return Rule(path, {value: read(given) for value, given in mapped.items()})
    except InvalidInputError as error:
        raise InvalidInputError(f"{place}.map: {error.message}") from None


def _check_names(written: Any, where: str, names: tuple[str, ...]) -> None:
    """Raise InvalidInputError unless a part maps some of these names."""
    if not isinstance(written, dict):
        raise InvalidInputError(f"{where}must map {' and '.join(names)}")
    for name in written:
        if name not in names:
            raise InvalidInputError(f"{where}has '{name}', which means nothing: it may have {', '.join(names)}")


def _scopes(given: list[str]) -> tuple[Scope, ...]:
    for each in given:
        if each not in list(Scope):
            raise InvalidInputError(f"'{each}' is no scope: there are {', '.join(Scope)}")
    return tuple(map(Scope, given))


def _patterns(given: list[str]) -> tuple[str, ...]:
    if not given:
        raise InvalidInputError(f"collections must name 1 to {MAX_COLLECTIONS} collections")
    return asked_collections({"collections": given}) or ()
