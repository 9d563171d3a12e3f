"""Opens what checks the tokens of users, as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from interfaces.identity.claims import ClaimsTable, read_claims_table
from providers.outbound.network import Network
from schemas.access.callers import Caller
from schemas.settings import OidcSettings
from wrapper.background import Looks

if TYPE_CHECKING:
    from interfaces.identity.verifier import Verifier


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity provider as routes and authentication know it. Threads may share it."""

    issuer: str
    audiences: tuple[str, ...]
    table: ClaimsTable
    verifier: Verifier

    def verify(self, token: str) -> Caller:
        """Return the user who bears a token. Raises what `Verifier.verify` raises."""
        return self.verifier.verify(token)

    @property
    def resource(self) -> str | None:
        """The URL that clients name as the resource their token is for, None when no audience is a URL."""
        return next((each for each in self.audiences if _is_url(each)), None)


def open_identity(
    settings: OidcSettings,
    network: Network,
    looks: Looks | None = None,
    *,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Identity | None:
    """Return the identity provider of the settings, None when there is none.

    Its keys are kept fresh by a look in the background, where there are `looks`, which need not find the provider:
    the service starts without it. Raises ConfigurationError when the table of claims cannot be used.
    """
    if not settings.has_users:
        return None
    # Imported late: the library for tokens imports much of cryptography, and most services have no users.
    from interfaces.identity.issuer_keys import FETCH_SECONDS, PAUSE_SECONDS, IssuerKeys
    from interfaces.identity.verifier import Verifier

    table = read_claims_table(settings.oidc_claims)
    keys = IssuerKeys(settings.oidc_issuer, network, clock=monotonic)
    verifier = Verifier(settings.oidc_issuer, settings.oidc_audience, keys, table, clock=clock)
    if looks is not None:
        looks.add("identity-provider", keys.keep_fresh, None, every_seconds=PAUSE_SECONDS, limit_seconds=FETCH_SECONDS)
    return Identity(settings.oidc_issuer, settings.oidc_audience, table, verifier)


def _is_url(audience: str) -> bool:
    try:
        parts = urlsplit(audience)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
