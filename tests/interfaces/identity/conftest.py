"""An identity provider, and what checks its tokens."""

import time
from collections.abc import Callable

import pytest

from interfaces.identity.claims import ClaimsTable
from interfaces.identity.issuer_keys import IssuerKeys
from interfaces.identity.verifier import Verifier
from providers.outbound.network import Network
from tests.support.identity.issuer import AUDIENCE, Issuer, running_issuer
from tests.wrapper.clock import Clock


@pytest.fixture
def issuer():
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def clock():
    """The time by which tokens are judged."""
    return Clock(time.time())


@pytest.fixture
def age():
    """The time by which keys grow old."""
    return Clock(1_000.0)


@pytest.fixture
def keys(issuer, age):
    return IssuerKeys(issuer.url, Network(), clock=age)


@pytest.fixture
def verifier_of(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> Callable[..., Verifier]:
    """`verifier_of(table)`: what checks tokens of the issuer by a table of claims."""

    def make(table: ClaimsTable | None = None, *audiences: str) -> Verifier:
        return Verifier(issuer.url, audiences or (AUDIENCE,), keys, table or ClaimsTable(), clock=clock)

    return make


@pytest.fixture
def verify(verifier_of):
    """The check of tokens by the usual table."""
    return verifier_of().verify
