"""Opens what checks the tokens of users, as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from interfaces.identity.claims import read_claims_table
from providers.outbound.network import Network
from schemas.settings import OidcSettings
from wrapper.background import Looks

if TYPE_CHECKING:
    from interfaces.identity.verifier import Verifier


def open_identity(
    settings: OidcSettings,
    network: Network,
    looks: Looks | None = None,
    *,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Verifier | None:
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
    return verifier
