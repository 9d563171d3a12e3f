"""The keys that an identity provider signs with: found by its discovery document, kept, and fetched again.

They are fetched at the start and every few minutes, and when a token names a key that is not known. While the provider
does not answer, the keys of before are used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import parse_qs, urlsplit

import structlog
from jwt import PyJWK

from providers.outbound import deadlines
from providers.outbound.answers import array, listed, reading, text
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.network import Network
from providers.outbound.vendor_dialect import VendorDialect
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.settings.oidc import may_be_asked

log = structlog.get_logger(__name__)

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


class IssuerKeys:
    """The keys of one issuer, for all threads of a process. `clock` is monotonic, in seconds.

    The client of the library would let all requests wait for a fetch, ask a provider that fails for each token, and
    use no key without an id.
    """

    def __init__(self, issuer: str, network: Network, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._network = network
        self._clock = clock
        self._keys: list[dict[str, Any]] = []
        self._algorithms: list[Any] | None = None  # those that the provider lists, if it lists any
        self._fetched_at = self._asked_at = float("-inf")
        self._has_failed = True
        self._fetching = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)

    def find(self, kid: str | None, algorithm: str) -> PyJWK | None:
        """Return the issuer's key with that id, without one the only key of that algorithm; None when it has no such
        key. One that is not known is looked for at the issuer.

        Raises UnavailableError when no keys are known because the issuer has not answered.
        """
        if not self._knows(kid) and (self._is_due() or self._fetching.locked()):
            if not self._waiting.acquire(blocking=False):
                raise _no_keys()
            try:
                with self._fetching:
                    if not self._knows(kid) and self._is_due():
                        self._asked_at = self._clock()
                        self._fetch()
            finally:
                self._waiting.release()
        held = self._usable()
        if not held:
            raise _no_keys()
        if self._algorithms is not None and algorithm not in self._algorithms:
            return None
        named = [each for each in held if kid is None or each.get("kid") == kid]
        fitting = [key for each in named if (key := _parsed(each, algorithm)) is not None]
        return fitting[0] if fitting and (kid is not None or len(fitting) == 1) else None

    def keep_fresh(self) -> None:
        """Fetch the keys when they have grown old, or the last attempt failed. Failures are logged."""
        with self._fetching:
            if self._has_failed or self._clock() - self._fetched_at >= FRESH_SECONDS:
                self._fetch()

    def _usable(self) -> list[dict[str, Any]]:
        return self._keys if self._clock() - self._fetched_at < KEPT_SECONDS else []

    def _knows(self, kid: str | None) -> bool:
        return any(kid is None or each.get("kid") == kid for each in self._usable())

    def _is_due(self) -> bool:
        return self._clock() - self._asked_at >= PAUSE_SECONDS

    def _fetch(self) -> None:
        """Replace the keys, or keep them and log why."""
        began = self._clock()
        try:
            with deadlines.within(FETCH_SECONDS):
                self._keys, self._algorithms = self._fetched()
                self._fetched_at = began
        except RagError as error:
            self._has_failed = True
            log.warning(
                "the keys of the identity provider could not be fetched",
                issuer=self._issuer,
                reason=error.message,
                has_keys=bool(self._usable()),
            )
        else:
            self._has_failed = False

    def _fetched(self) -> tuple[list[dict[str, Any]], list[Any] | None]:
        # Providers differ in whether their name ends in a slash; the path goes below it either way.
        found = self._document(self._issuer.rstrip("/") + DISCOVERY)
        with reading("identity provider"):
            issuer, jwks_uri = text(found["issuer"]), text(found["jwks_uri"])
            said = found.get("id_token_signing_alg_values_supported")
            algorithms = None if said is None else array(said)
        if issuer != self._issuer:
            raise ConfigurationError(
                f"The provider at RAG_OIDC_ISSUER calls itself '{issuer[:200]}', which is not '{self._issuer}'"
            )
        if not may_be_asked(jwks_uri) or (self._issuer.startswith("https:") and not jwks_uri.startswith("https:")):
            raise ConfigurationError("The identity provider keeps its keys at an address that is not https")
        document = self._document(jwks_uri)
        with reading("identity provider"):
            keys = [each for each in listed(document, "keys")[:MAX_KEYS] if _is_for_signatures(each)]
        if not keys:
            raise ConfigurationError("The identity provider has no key that signatures can be checked with")
        return keys, algorithms

    def _document(self, url: str) -> Any:
        parts = urlsplit(url)
        dialect = IssuerDialect("identity provider", self._issuer)
        dialect.provider = ""  # it is a place
        client = JsonClient(
            f"{parts.scheme}://{parts.netloc}", dialect, network=self._network, timeout_seconds=FETCH_SECONDS
        )
        with closing(client):
            return client.call("GET", parts.path, params=dict(parse_qs(parts.query)))


def _is_for_signatures(key: Any) -> bool:
    """Return whether a JSON Web Key of a provider is a public key for signatures, and one that can be read."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig" or "d" in key or "k" in key:
        return False
    operations = key.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return False
    try:
        PyJWK(key)
    except Exception as error:  # the libraries below raise whatever a strange key leads them to
        log.warning("a key of the identity provider cannot be used", kid=key.get("kid"), reason=repr(error)[:200])
        return False
    return True


def _parsed(key: dict[str, Any], algorithm: str) -> PyJWK | None:
    """Return a key as one of that algorithm, None when it is of another."""
    if key.get("alg", algorithm) != algorithm:
        return None
    try:
        parsed = PyJWK(key, algorithm)
        parsed.Algorithm.prepare_key(parsed.key)  # refuses another curve, which PyJWK takes
    except Exception:  # as above
        return None
    return parsed


def _no_keys() -> UnavailableError:
    return UnavailableError(
        "Tokens of users cannot be checked now: the identity provider does not answer", code="identity_unavailable"
    )
