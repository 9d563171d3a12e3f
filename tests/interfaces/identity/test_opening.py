"""What the settings open."""

import time

import pytest

from interfaces.identity.opening import open_identity
from providers.outbound.network import Network
from schemas.errors import ConfigurationError
from schemas.settings import OidcSettings
from tests.support.identity.issuer import AUDIENCE
from tests.support.live import eventually
from wrapper.background import Looks


def test_without_an_issuer_there_is_nothing():
    assert open_identity(OidcSettings(), Network()) is None


def test_a_wrong_table_stops_the_start(tmp_path):
    with pytest.raises(ConfigurationError, match="RAG_OIDC_CLAIMS"):
        open_identity(OidcSettings("https://a.example", ("rag",), str(tmp_path / "none.yaml")), Network())


def test_the_keys_are_there_before_the_first_token(issuer):
    looks = Looks()
    try:
        identity = open_identity(OidcSettings(issuer.url, (AUDIENCE,)), Network(), looks)
        eventually(lambda: issuer.fetches() == 1)
        assert identity.verify(issuer.token()).id == "user:ada"
        assert issuer.fetches() == 1
    finally:
        looks.close()


def test_it_opens_without_the_issuer_and_judges_by_the_clock_it_is_given(issuer):
    issuer.behaviour.is_down = True
    identity = open_identity(
        OidcSettings(issuer.url, (AUDIENCE,)), Network(), clock=lambda: time.time() + 3_600, monotonic=lambda: 0.0
    )
    issuer.behaviour.is_down = False
    assert identity.verify(issuer.token(exp=int(time.time()) + 7_200)).id == "user:ada"


@pytest.mark.parametrize(
    ("audiences", "resource"),
    [
        (("rag",), None),
        (("api://rag", "urn:rag"), None),
        (("rag", "https://rag.example/mcp", "https://other.example"), "https://rag.example/mcp"),
        (("https://[", "http://localhost:5006"), "http://localhost:5006"),
        (("https://rag.example/?a=1",), None),
    ],
)
def test_the_resource_is_the_first_audience_that_is_a_url(audiences, resource):
    assert open_identity(OidcSettings("https://a.example", audiences), Network()).resource == resource
