"""The keys of an identity provider: when they are fetched, kept and given up."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from interfaces.identity import issuer_keys
from interfaces.identity.claims import ClaimsTable
from interfaces.identity.issuer_keys import MAX_KEYS, MAX_WAITING, IssuerKeys
from interfaces.identity.verifier import Verifier
from providers.outbound.addresses import ConnectPolicy
from providers.outbound.network import Network
from schemas.errors import UnauthorizedError, UnavailableError
from tests.access.faults import all_faults
from tests.support.identity.issuer import AUDIENCE, DISCOVERY, JWKS, SigningKey, signing_key
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.support.raw_server import HEAD, raw_server, silent


def say(issuer, path, document):
    issuer.behaviour.said[path] = document if isinstance(document, bytes) else json.dumps(document).encode()


# Rotation.


def test_many_tokens_cost_one_fetch_and_a_key_that_is_not_known_is_looked_for_now_and_then(issuer, verify, age):
    for number in range(20):
        assert verify(issuer.token(jti=str(number))).id == "user:ada"
    assert issuer.asked == [DISCOVERY, JWKS]
    age.now += 31
    for number in range(50):
        with pytest.raises(UnauthorizedError):
            verify(issuer.token(key=signing_key("stranger"), header={"kid": f"kid-{number}"}))
    assert issuer.fetches() == 2
    age.now += 31
    issuer.rotate("second")
    assert verify(issuer.token()).id == "user:ada"
    assert issuer.fetches() == 3
    with pytest.raises(UnauthorizedError):
        verify(issuer.token(key=signing_key("first"), jti="withdrawn"))


def test_a_token_without_a_key_id_goes_by_the_only_key_and_is_refused_where_it_may_mean_several(issuer, verify, age):
    assert verify(issuer.token(header={"kid": None})).id == "user:ada"
    issuer.keys.append(signing_key("b"))
    age.now += 31
    for key in reversed(issuer.keys):
        assert verify(issuer.token(key=key)).id == "user:ada"
        with pytest.raises(UnauthorizedError):
            verify(issuer.token(key=key, header={"kid": None}, jti="of several"))


def test_keys_are_fetched_again_when_they_are_old(issuer, keys, age):
    for seconds, fetches in ((0, 1), (299, 1), (1, 2), (10, 2)):
        age.now += seconds
        keys.keep_fresh()
        assert issuer.fetches() == fetches


# An issuer that fails.


def test_an_issuer_that_is_down_leaves_what_was_known(issuer, verify, keys, age):
    assert verify(issuer.token()).id == "user:ada"
    issuer.behaviour.is_down = True
    age.now += 24 * 3600 - 1
    keys.keep_fresh()
    assert verify(issuer.token(jti="later")).id == "user:ada"
    age.now += 1
    with pytest.raises(UnavailableError) as raised:
        verify(issuer.token(jti="too late"))
    assert raised.value.code == "identity_unavailable"
    assert issuer.url not in raised.value.message
    issuer.behaviour.is_down = False
    keys.keep_fresh()
    assert verify(issuer.token(jti="too late")).id == "user:ada"


def test_an_issuer_that_was_down_at_the_start_is_found_by_the_next_look(issuer, verify, keys):
    issuer.behaviour.is_down = True
    keys.keep_fresh()
    for _ in range(5):
        with pytest.raises(UnavailableError):
            verify(issuer.token())
    assert issuer.asked == [DISCOVERY] * 2
    issuer.behaviour.is_down = False
    keys.keep_fresh()
    assert verify(issuer.token()).id == "user:ada"


def test_a_hanging_issuer_holds_few_requests_which_ask_once(issuer, age, clock, monkeypatch):
    monkeypatch.setattr(issuer_keys, "FETCH_SECONDS", 60.0)
    keys = IssuerKeys(issuer.url, Network(), clock=age)
    verify = Verifier(issuer.url, (AUDIENCE,), keys, ClaimsTable(), clock=clock).verify
    issuer.behaviour.hold = hold = threading.Event()
    token = issuer.token()
    with ThreadPoolExecutor(4 * MAX_WAITING) as threads:
        asked = [threads.submit(verify, token) for _ in range(4 * MAX_WAITING)]
        eventually(lambda: sum(each.done() for each in asked) == 3 * MAX_WAITING)
        eventually(lambda: issuer.asked)
        assert issuer.asked == [DISCOVERY], "those who wait are still waiting"
        refused = [each.exception() for each in asked if each.done()]
        hold.set()
        assert [each.exception(PATIENCE_SECONDS) for each in asked].count(None) == MAX_WAITING
    assert {type(each) for each in refused} == {UnavailableError}
    assert issuer.asked == [DISCOVERY, JWKS]


def test_known_keys_are_found_while_the_issuer_hangs(issuer, verify, keys, age):
    assert verify(issuer.token()).id == "user:ada"
    issuer.behaviour.hold = threading.Event()
    age.now += 300
    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(keys.keep_fresh)
        eventually(lambda: len(issuer.asked) == 3)
        assert verify(issuer.token(jti="meanwhile")).id == "user:ada"
        assert not looking.done()
        issuer.behaviour.hold.set()


@pytest.mark.parametrize(
    "speak",
    [silent, lambda server, connection: server.drip(connection, [HEAD, b"\r\n", *[b" "] * 10_000])],
    ids=["silent", "dripping"],
)
def test_a_fetch_ends_however_slowly_the_issuer_speaks(speak, age, monkeypatch):
    monkeypatch.setattr(issuer_keys, "FETCH_SECONDS", 0.3)
    with raw_server(speak) as server:
        keys = IssuerKeys(server.url, Network(), clock=age)
        with pytest.raises(UnavailableError):
            keys.find("first", "RS256")


# An issuer that answers rubbish.


RUBBISH = [
    *(b"", b"<html>", b"[]", b"null", b"{}", b'{"issuer": 7, "jwks_uri": 8}'),
    *(b" " * 1_000_001, b"[" * 100_000),
]


@pytest.mark.parametrize("path", [DISCOVERY, JWKS])
def test_rubbish_is_no_document_and_does_not_replace_the_keys(issuer, keys, age, path):
    assert keys.find("first", "RS256") is not None
    for number, document in enumerate(RUBBISH, start=2):
        say(issuer, path, document)
        age.now += 300
        keys.keep_fresh()
        assert issuer.asked.count(DISCOVERY) == number
        assert keys.find("first", "RS256") is not None, document[:40]


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"jwks_uri": "http://keys.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "//keys"},
        {"jwks_uri": "http://me:secret@127.0.0.1/keys"},
        {"jwks_uri": "http://[/keys"},
        {"jwks_uri": "https://169.254.169.254/keys"},
        {"id_token_signing_alg_values_supported": "RS256"},
    ],
)
def test_a_discovery_document_that_cannot_be_trusted_is_not_used(issuer, keys, changes):
    say(issuer, DISCOVERY, {**issuer.document(DISCOVERY), **changes})
    with pytest.raises(UnavailableError):
        keys.find("first", "RS256")
    assert issuer.fetches() == 0


def test_the_issuer_is_asked_within_the_policy_of_connections(issuer, age):
    keys = IssuerKeys(issuer.url, Network(ConnectPolicy.parse("public")), clock=age)
    with pytest.raises(UnavailableError):
        keys.find("first", "RS256")
    assert issuer.asked == []


def test_a_query_of_the_address_of_the_keys_is_sent(issuer, keys):
    say(issuer, DISCOVERY, {**issuer.document(DISCOVERY), "jwks_uri": f"{issuer.url}{JWKS}?p=policy"})
    assert keys.find("first", "RS256") is not None


GOOD = signing_key("good").jwk()
CHANGED = [
    *({"use": "enc"}, {"key_ops": ["encrypt"]}, {"key_ops": "verify"}, {"kid": 7}),
    *({"kty": "oct", "k": "c2VjcmV0"}, {"kty": ["RSA"]}, {"alg": "RSA-OAEP"}, {"alg": 7}),
    *({"n": 7}, {"n": "!"}, {"n": "AQAB"}, {"e": None}, {"d": "AQAB"}),
]


def test_a_strange_key_is_left_out_and_the_others_are_used(issuer, keys, age):
    with all_faults() as case:
        for strange in (
            *(7, None, {}),
            *({**GOOD, **changed} for changed in CHANGED),
            {"kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB"},
            {"kty": "EC", "crv": "secp256k1", "x": "AQAB", "y": "AQAB"},
            {"kty": "OKP", "crv": "X25519", "x": "AQAB"},
            {"kty": "OKP", "crv": "Ed25519", "x": ""},
        ):
            with case(strange):
                say(issuer, JWKS, {"keys": [strange, {**GOOD, "kid": "kept"}]})
                age.now += 300
                keys.keep_fresh()
                assert keys.find("kept", "RS256") is not None
                assert keys.find("good", "RS256") is None


def test_a_key_of_another_curve_is_none_of_an_algorithm(issuer, keys):
    say(issuer, JWKS, {"keys": [signing_key("wide", "ES384").jwk(alg=None)]})
    assert keys.find("wide", "ES256") is None
    assert keys.find("wide", "ES384") is not None


def test_a_key_that_is_too_short_is_no_use_and_the_number_of_keys_is_bounded(issuer, keys, verify):
    short = SigningKey("short", "RS256", rsa.generate_private_key(65537, 1024))
    say(issuer, JWKS, {"keys": [short.jwk(), *({**GOOD, "kid": str(number)} for number in range(MAX_KEYS))]})
    with pytest.raises(UnauthorizedError):
        verify(issuer.token(key=short))
    assert keys.find(str(MAX_KEYS - 2), "RS256") is not None
    assert keys.find(str(MAX_KEYS - 1), "RS256") is None
