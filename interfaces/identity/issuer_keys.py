"""The keys that an identity provider signs with: found by its discovery document, kept, and fetched again.

They are fetched at the start and every few minutes, and when a token names a key that is not known. While the provider
does not answer, the keys of before are used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from jwt import PyJWK

from providers.outbound import deadlines
from providers.outbound.answers import listed, reading, text
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.network import Network
from providers.outbound.vendor_dialect import VendorDialect
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.settings.oidc import may_be_asked

log = structlog.get_logger(__name__)

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"},
)
"""The algorithms that are ever accepted: those with a private key that only the provider has."""
ALGORITHMS_OF = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""The algorithms of a key's type and curve."""
DISCOVERY = "/.well-known/openid-configuration"
FETCH_SECONDS = 5.0
"""How long the provider may take for both documents."""
FRESH_SECONDS = 300.0
"""The age from which keys are fetched again; a key that the provider withdraws is accepted for no longer."""
KEPT_SECONDS = 24 * 3600.0
"""The age from which keys are no longer used, though the provider does not answer."""
PAUSE_SECONDS = 30.0
"""The time between two fetches that tokens of unknown keys cause: anybody can name keys that do not exist."""
MAX_WAITING = 8
"""The most requests that wait for keys at once. Without this bound, a provider that hangs would take all threads."""
MAX_KEYS = 100


class IssuerDialect(VendorDialect):
    """The limits of what an identity provider answers. Both documents are small."""

    max_answer_bytes = 1_000_000
    retry = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of one fetch, by their id and algorithm, and when they were fetched."""

    keys: Mapping[tuple[str | None, str], PyJWK]
    ids: frozenset[str]
    fetched_at: float

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the key with that id; without one, the only key of that algorithm."""
        if kid is not None:
            return self.keys.get((kid, algorithm))
        fitting = [key for (_, each), key in self.keys.items() if each == algorithm]
        return fitting[0] if len(fitting) == 1 else None


class IssuerKeys:
    """The keys of one issuer, for all threads of a process. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        issuer: str,
        network: Network,
        *,
        fetch_seconds: float = FETCH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._network = network
        self._fetch_seconds = fetch_seconds
        self._clock = clock
        self._held: KeySet | None = None
        self._fetching = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._asked_at: float | None = None
        self._has_failed = False

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return a key of the issuer, None when it has no such key; one that is not known is looked for at the issuer.

        Raises UnavailableError when no keys are known because the issuer has not answered.
        """
        held = self._usable()
        if held is None or (kid is not None and kid not in held.ids):
            self._fetch_for_a_token(kid)
            held = self._usable()
        if held is None:
            raise _no_keys()
        return held.find(kid, algorithm)

    def keep_fresh(self) -> None:
        """Fetch the keys when they have grown old, or the last attempt failed. Failures are logged."""
        with self._fetching:
            held = self._held
            if held is None or self._has_failed or self._clock() - held.fetched_at >= FRESH_SECONDS:
                self._fetch()

    def _usable(self) -> KeySet | None:
        held = self._held
        return held if held is not None and self._clock() - held.fetched_at < KEPT_SECONDS else None

    def _is_due(self) -> bool:
        return self._asked_at is None or self._clock() - self._asked_at >= PAUSE_SECONDS

    def _fetch_for_a_token(self, kid: str | None) -> None:
        if not self._is_due() and not self._fetching.locked():
            return
        if not self._waiting.acquire(blocking=False):
            raise _no_keys()
        try:
            with self._fetching:
                held = self._usable()
                is_known = held is not None and (kid is None or kid in held.ids)  # fetched by another thread meanwhile
                if not is_known and self._is_due():
                    self._asked_at = self._clock()
                    self._fetch()
                    if held is None and not self._has_failed:
                        self._asked_at = None  # the first keys say nothing against asking for one more
        finally:
            self._waiting.release()

    def _fetch(self) -> None:
        """Replace the keys, or keep them and log why."""
        try:
            with deadlines.within(self._fetch_seconds):
                self._held = self._fetched()
        except RagError as error:
            self._has_failed = True
            log.warning(
                "the keys of the identity provider could not be fetched",
                issuer=self._issuer,
                reason=error.message,
                has_keys=self._usable() is not None,
            )
        else:
            self._has_failed = False

    def _fetched(self) -> KeySet:
        began = self._clock()
        # Providers differ in whether their name ends in a slash; the path goes below it either way.
        found = self._document(self._issuer.rstrip("/") + DISCOVERY)
        with reading(self._dialect().service):
            issuer, jwks_uri = text(found["issuer"]), text(found["jwks_uri"])
            said = found.get("id_token_signing_alg_values_supported")
            algorithms = ALGORITHMS if said is None else ALGORITHMS & set(filter(_is_text, said))
        if issuer != self._issuer:
            raise ConfigurationError(
                f"The provider at RAG_OIDC_ISSUER calls itself '{issuer[:200]}', which is not '{self._issuer}'"
            )
        if not may_be_asked(jwks_uri) or (self._issuer.startswith("https:") and not jwks_uri.startswith("https:")):
            raise ConfigurationError("The identity provider keeps its keys at an address that is not https")
        document = self._document(jwks_uri)
        with reading(self._dialect().service):
            keys = usable_keys(listed(document, "keys"), algorithms)
        if not keys:
            raise ConfigurationError("The identity provider has no key of an algorithm that is accepted")
        return KeySet(keys, frozenset(kid for kid, _ in keys if kid is not None), began)

    def _document(self, url: str) -> dict[str, Any]:
        parts = urlsplit(url)
        dialect = self._dialect()
        client = JsonClient(
            f"{parts.scheme}://{parts.netloc}", dialect, network=self._network, timeout_seconds=self._fetch_seconds
        )
        with closing(client), reading(dialect.service):
            document = client.call("GET", parts.path, params=dict(parse_qs(parts.query)))
            if not isinstance(document, dict):
                raise TypeError("not an object")
            return document

    def _dialect(self) -> IssuerDialect:
        dialect = IssuerDialect("identity provider", self._issuer)
        dialect.provider = ""  # it is a place
        return dialect


def usable_keys(written: Iterable[Any], algorithms: frozenset[str]) -> dict[tuple[str | None, str], PyJWK]:
    """Return the public keys for signatures among the JSON Web Keys of a provider, by id and algorithm. Others are left
    out: those for encryption, secrets, private keys, and what cannot be read."""
    found: dict[tuple[str | None, str], PyJWK] = {}
    for each in list(written)[:MAX_KEYS]:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or "d" in each or "k" in each:
            continue
        operations, kid = each.get("key_ops", ["verify"]), each.get("kid")
        if not isinstance(operations, list) or "verify" not in operations or not isinstance(kid, str | None):
            continue
        for algorithm in _algorithms_of(each) & algorithms:
            try:
                key = PyJWK(each, algorithm)
            except Exception as error:  # the libraries below raise whatever a strange key leads them to
                log.warning("a key of the identity provider cannot be used", kid=kid, reason=repr(error)[:200])
                break
            if key.Algorithm.check_key_length(key.key) is None:
                found.setdefault((kid, algorithm), key)
    return found


def _algorithms_of(key: dict[str, Any]) -> frozenset[str]:
    kind, curve, named = key.get("kty"), key.get("crv"), key.get("alg")
    if not isinstance(kind, str) or not isinstance(curve, str | None) or not isinstance(named, str | None):
        return frozenset()
    possible = frozenset(ALGORITHMS_OF.get((kind, curve), ()))
    return possible if named is None else possible & {named}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _no_keys() -> UnavailableError:
    return UnavailableError(
        "Tokens of users cannot be checked now: the identity provider does not answer", code="identity_unavailable"
    )
