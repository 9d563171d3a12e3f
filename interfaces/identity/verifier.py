"""Whether a bearer token is an access token that the identity provider issued for this service, and who bears it."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import jwt
from cachetools import TLRUCache

from interfaces.identity.claims import ClaimsTable, read_claims_table
from interfaces.identity.issuer_keys import FETCH_SECONDS, PAUSE_SECONDS, IssuerKeys
from providers.outbound.network import Network
from schemas.access.callers import SKEW_SECONDS, Caller, Kind, Scope
from schemas.access.owners import USER_OWNER
from schemas.errors import UnauthorizedError
from schemas.names import MAX_PATTERNS
from schemas.settings import OidcSettings
from wrapper.background import Looks

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""The algorithms that are ever accepted: those with a private key that only the provider has."""
MAX_TOKEN_CHARACTERS = 16_384
REMEMBERED_SECONDS = 60
"""How long a token is accepted without another check, which is also how long one outlives its key."""
MAX_REMEMBERED = 4_096
MAX_ID_CHARACTERS = 150
MAX_NAME_CHARACTERS = 150
LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
HEADER_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""The types that access tokens have in their header: RFC 9068's, and the general one that most providers write."""
ACCESS = "bearer"
"""The claim `typ` of Keycloak's access tokens; its ID and refresh tokens have others."""
OF_ID_TOKENS = ("nonce", "at_hash", "c_hash")
"""Claims that only ID tokens have. Those are for the client that logged a user in, who may be anybody's client."""
OPTIONS = {
    "verify_exp": False,  # the three times are checked below, by a clock that is passed in
    "verify_nbf": False,
    "verify_iat": False,
    "require": ["exp", "iss", "aud", "sub"],
    "enforce_minimum_key_length": True,
}
HASHED = "sha256-"
"""The beginning of a subject's name in place of one that is too long, or not printable."""


def open_identity(settings: OidcSettings, network: Network, looks: Looks | None = None) -> Verifier:
    """Return the identity provider of the settings.

    Its keys are kept fresh by a look in the background, where there are `looks`, which need not find the provider:
    the service starts without it. Raises ConfigurationError when the table of claims cannot be used.
    """
    table = read_claims_table(settings.oidc_claims)
    keys = IssuerKeys(settings.oidc_issuer, network)
    if looks is not None:
        looks.add("identity-provider", keys.keep_fresh, None, every_seconds=PAUSE_SECONDS, limit_seconds=FETCH_SECONDS)
    return Verifier(settings.oidc_issuer, settings.oidc_audience, keys, table)


class Verifier:
    """The identity provider as routes and authentication know it: it checks tokens of one issuer, for all threads of a
    process. `clock` is seconds since the epoch."""

    def __init__(
        self,
        issuer: str,
        audiences: tuple[str, ...],
        keys: IssuerKeys,
        table: ClaimsTable,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.issuer = issuer
        self.table = table
        self.resource = next(filter(_is_url, audiences), None)
        """The URL that clients name as the resource their token is for, None when no audience is a URL."""
        self._audiences = audiences
        self._keys = keys
        self._clock = clock
        self._jwt = jwt.PyJWT()
        self._remembered: TLRUCache[bytes, Caller] = TLRUCache(MAX_REMEMBERED, _until, timer=clock)
        self._lock = threading.Lock()

    def verify(self, token: str) -> Caller:
        """Return the user who bears a token, with the rights that it gives, which may be none.

        Raises UnauthorizedError when it is not a valid token for this service, and UnavailableError when that cannot
        be known because the provider has never answered.
        """
        if len(token) > MAX_TOKEN_CHARACTERS or not token.isascii():
            raise _refused(f"has more than {MAX_TOKEN_CHARACTERS:,} characters, or others than tokens have")
        # What is remembered is no token: whoever reads this memory cannot use it.
        name = hashlib.sha256(token.encode()).digest()
        with self._lock:
            known = self._remembered.get(name)
        if known is not None:
            return known
        caller = self._caller(self._checked(token))
        with self._lock:
            self._remembered[name] = caller
        return caller

    def _checked(self, token: str) -> dict[str, Any]:
        """Return the claims of a token whose signature, issuer, audience, type and times are right."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm = _algorithm(header)
            key = self._keys.find(header.get("kid"), algorithm)
            if key is None:
                raise _refused("is signed with a key that the identity provider does not have", key="kid")
            claims: dict[str, Any] = self._jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=self.issuer,
                audience=self._audiences,
                options=OPTIONS,  # type: ignore[arg-type]
            )
        except jwt.InvalidAudienceError as error:
            raise _refused("is not for this service", claim="aud") from error
        except jwt.InvalidIssuerError as error:
            raise _refused("is not from the identity provider of this service", claim="iss") from error
        except jwt.MissingRequiredClaimError as error:
            raise _refused(f"lacks the claim {error.claim}", claim=error.claim) from error
        except jwt.InvalidSignatureError as error:
            raise _refused("has a wrong signature") from error
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise _refused("is no valid access token") from error
        self._check_times(claims)
        _check_kind(claims, is_access=str(header.get("typ", "")).lower().endswith("at+jwt"))
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock()
        if _moment(claims, "exp") <= now - SKEW_SECONDS:
            raise UnauthorizedError("The access token has expired", code="key_expired")
        for claim in ("nbf", "iat"):
            if claim in claims and _moment(claims, claim) > now + SKEW_SECONDS:
                raise _refused("is not valid yet", claim=claim)

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        subject = claims["sub"]
        if not subject:
            raise _refused("names no subject", claim="sub")
        user = USER_OWNER + _short(subject)
        scopes, collections = self.table.scopes_of(claims), self.table.collections_of(claims)
        if collections is not None:
            if len(collections) > MAX_PATTERNS:
                raise _refused(f"gives more than {MAX_PATTERNS:,} collections: a beginning of names stands for many")
            scopes -= {Scope.ADMIN}  # which is for everything there is
        return Caller(
            id=user,
            name=_name(claims) or user,
            kind=Kind.USER,
            scopes=scopes,
            owner=user,
            collections=collections,
            expires_at=datetime.fromtimestamp(_moment(claims, "exp"), UTC),
        )


def _algorithm(header: Mapping[str, Any]) -> str:
    """Return the algorithm of a header. Keys that it brings along or leads to (jwk, jku, x5c, x5u) count for nothing.

    Raises UnauthorizedError for an algorithm or a type that no access token has.
    """
    algorithm, kind = header.get("alg"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _refused("is not signed by an algorithm that is accepted", key="alg")
    if not isinstance(kind, str) or kind.lower() not in HEADER_TYPES:
        raise _refused("is of another type than access tokens", key="typ")
    if "crit" in header or "b64" in header:
        raise _refused("demands an extension that is not known here", key="crit")
    return algorithm


def _check_kind(claims: Mapping[str, Any], *, is_access: bool) -> None:
    """Raise UnauthorizedError for ID tokens, refresh tokens and tokens that only the holder of a key may use."""
    kind = claims.get("typ")
    if kind is not None and str(kind).lower() != ACCESS:
        raise _refused("is of another type than access tokens", claim="typ")
    # A token that calls itself an access token may have a nonce: those of Keycloak before release 25 have one.
    if not is_access and kind is None and any(each in claims for each in OF_ID_TOKENS):
        raise _refused("is an ID token, which is for the client that logged the user in")
    if "cnf" in claims:
        raise _refused("may only be used with a proof that is not checked here", claim="cnf")


def _moment(claims: Mapping[str, Any], claim: str) -> float:
    """Return a time of a token in seconds since the epoch. Raises UnauthorizedError when it is none."""
    moment = claims[claim]
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not 0 <= moment <= LAST_MOMENT:
        raise _refused("has a time that is none", claim=claim)
    return float(moment)


def _short(subject: str) -> str:
    """Return a subject as a part of ids: itself, or a hash where it is too long or has strange characters."""
    if len(USER_OWNER + subject) <= MAX_ID_CHARACTERS and subject.isprintable() and not subject.startswith(HASHED):
        return subject
    return HASHED + hashlib.sha256(subject.encode(errors="surrogatepass")).hexdigest()


def _name(claims: Mapping[str, Any]) -> str:
    """Return what people call the user, empty when the token does not say."""
    for claim in ("preferred_username", "email", "sub"):
        name = claims.get(claim)
        if isinstance(name, str) and (shown := "".join(c for c in name if c.isprintable()).strip()):
            return shown[:MAX_NAME_CHARACTERS]
    return ""


def _is_url(audience: str) -> bool:
    try:
        parts = urlsplit(audience)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment


def _until(token: bytes, caller: Caller, now: float) -> float:
    expires = math.inf if caller.expires_at is None else caller.expires_at.timestamp() + SKEW_SECONDS
    return min(now + REMEMBERED_SECONDS, expires)


def _refused(what: str, **place: str) -> UnauthorizedError:
    return UnauthorizedError(f"The access token {what}", **place)
