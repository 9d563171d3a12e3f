"""Which tokens are accepted, and who bears them."""

import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from interfaces.identity.claims import ClaimsTable, Rule
from interfaces.identity.verifier import MAX_TOKEN_CHARACTERS
from schemas.access.callers import Kind, Scope
from schemas.errors import UnauthorizedError
from schemas.names import MAX_PATTERNS
from tests.access.faults import all_faults
from tests.support.identity.issuer import AUDIENCE, encoded, signing_key


def refusal(verify, token):
    with pytest.raises(UnauthorizedError) as raised:
        verify(token)
    assert token[:40] not in raised.value.message
    return raised.value


def test_a_token_of_the_issuer_names_a_user(issuer, verify):
    claims = issuer.claims()
    caller = verify(issuer.token())
    assert (caller.id, caller.owner, caller.name, caller.kind) == ("user:ada", "user:ada", "Ada", Kind.USER)
    assert (caller.scopes, caller.collections, caller.is_filtered) == ({Scope.READ}, None, False)
    assert abs(caller.expires_at.timestamp() - claims["exp"]) <= 1


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
@pytest.mark.parametrize("is_named", [True, False])
def test_keys_of_every_kind_are_used_whether_or_not_they_name_their_algorithm(issuer, verify, algorithm, is_named):
    key = issuer.rotate(f"of-{algorithm}", algorithm)
    issuer.behaviour.said["/keys"] = json.dumps({"keys": [key.jwk(alg=algorithm if is_named else None)]}).encode()
    assert verify(issuer.token()).id == "user:ada"


def test_the_types_and_claims_of_other_providers_are_accepted_and_one_audience_of_several_is_enough(
    issuer, verify, clock, verifier_of
):
    for kind in ("JWT", "jwt", "at+jwt", "application/at+jwt", None):
        assert verify(issuer.token(header={"typ": kind})).id == "user:ada", kind
    assert verify(issuer.token(aud=["account", AUDIENCE], typ="Bearer", azp="cli", jti="1")).id == "user:ada"
    assert verify(issuer.token(header={"typ": "at+jwt"}, nonce="n")).id == "user:ada"
    assert verify(issuer.token(header={"typ": "JWT"}, typ="Bearer", nonce="n")).id == "user:ada"
    assert verify(issuer.token(exp=clock.now + 60.5, iat=None)).id == "user:ada"
    verify = verifier_of(ClaimsTable(), "rag", AUDIENCE).verify
    assert verify(issuer.token(aud="rag")).id == verify(issuer.token()).id == "user:ada"
    assert refusal(verify, issuer.token(aud="ra")).details == {"claim": "aud"}


# What attackers send.


def forged(issuer, header, signature=b""):
    said = {"typ": "at+jwt", "kid": "first", **header}
    return f"{encoded(said)}.{encoded(issuer.claims(scope='admin'))}.{encoded(signature)}"


def test_a_token_without_a_signature_is_refused(issuer, verify):
    for algorithm in ("none", "None", "NONE", "nOnE", "", None, 7, ["RS256"], "RS1", "ES256K", "dir"):
        error = refusal(verify, forged(issuer, {"alg": algorithm}))
        assert (error.code, error.details) == ("key_unknown", {"key": "alg"}), algorithm
    assert issuer.fetches() == 0, "it names no algorithm that has keys"


def test_neither_the_public_key_nor_a_secret_among_the_keys_is_a_secret_to_sign_with(issuer, verify):
    public = issuer.keys[0].private.public_key()
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(issuer.keys[0].jwk()).encode(),
    ):
        for algorithm in ("HS256", "HS384", "HS512"):
            unsigned = forged(issuer, {"alg": algorithm}).removesuffix(".")
            token = f"{unsigned}.{encoded(hmac.digest(secret, unsigned.encode(), f'sha{algorithm[2:]}'))}"
            assert refusal(verify, token).details == {"key": "alg"}
    secret = b"s" * 32
    keys = [issuer.keys[0].jwk(), {"kty": "oct", "kid": "first", "k": encoded(secret), "alg": "HS256"}]
    issuer.behaviour.said["/keys"] = json.dumps({"keys": keys}).encode()
    token = jwt.encode(issuer.claims(), secret, "HS256", {"kid": "first"})
    assert refusal(verify, token).details == {"key": "alg"}


def test_a_key_signs_by_its_own_algorithm_only(issuer, verify):
    assert verify(issuer.token()).id == "user:ada"
    other = signing_key("first", "ES256")
    assert refusal(verify, issuer.token(key=other)).details == {"key": "kid"}
    issuer.behaviour.said["/keys"] = json.dumps({"keys": [issuer.keys[0].jwk(alg="PS256")]}).encode()
    assert refusal(verify, issuer.token(sub="eve", key=signing_key("first", "PS256")))


def test_an_algorithm_that_the_issuer_does_not_list_is_refused(issuer, verify):
    issuer.algorithms = ("HS256", "none", "ES256", "RS256")
    issuer.keys = [signing_key("first"), signing_key("first-ed", "EdDSA")]
    assert verify(issuer.token()).id == "user:ada"
    assert refusal(verify, issuer.token(key=issuer.keys[1])).details == {"key": "kid"}


def test_an_issuer_that_lists_no_algorithms_may_use_all_that_are_accepted(issuer, verify):
    issuer.algorithms = None
    issuer.rotate("ed", "EdDSA")
    assert verify(issuer.token()).id == "user:ada"


def test_keys_that_a_token_brings_along_count_for_nothing(issuer, verify):
    mine = signing_key("mine")
    for field in ("jwk", "jku", "x5u", "x5c", "x5t"):
        for kid in ("first", "mine", None):
            brought = {"jwk": mine.jwk(), "x5c": ["MIIB"], "x5t": "abc"}.get(field, f"{issuer.url}/evil")
            token = issuer.token(key=mine, header={"kid": kid, field: brought})
            assert refusal(verify, token).code == "key_unknown", (field, kid)
    assert "/evil" not in issuer.asked


def test_a_key_of_another_issuer_and_a_changed_token_are_refused(issuer, verify):
    stranger = signing_key("stranger")
    assert refusal(verify, issuer.token(key=stranger)).details == {"key": "kid"}
    assert "signature" in refusal(verify, issuer.token(key=stranger, header={"kid": "first"})).message
    head, claims, signature = issuer.token().split(".")
    more = encoded(issuer.claims(scope="admin"))
    assert "signature" in refusal(verify, f"{head}.{more}.{signature}").message
    assert refusal(verify, f"{head}.{claims}.").code == "key_unknown"
    assert refusal(verify, f"{head}.{claims}").code == "key_unknown"
    assert refusal(verify, f"{head}.{claims}.{signature}.{signature}").code == "key_unknown"


WRONG = {
    "iss": ["https://evil.example", None, ["x"]],
    "aud": ["https://other.example", [], None, {"https://rag.example": 1}, ["https://rag.example.evil"]],
    "sub": [None, ""],
    "exp": [None, "tomorrow", True, 1e300, float("inf"), -1],
    "nbf": ["now"],
    "iat": ["now"],
}


def test_a_wrong_or_missing_claim_is_refused_and_named(issuer, verify):
    with all_faults() as case:
        for claim, values in {**WRONG, "iss": [*WRONG["iss"], f"{issuer.url}/"]}.items():
            for value in values:
                with case(claim, value):
                    error = refusal(verify, issuer.token(**{claim: value}))
                    assert (error.code, error.details) == ("key_unknown", {"claim": claim})
    for subject in (7, ["ada"], {"a": 1}, True):
        assert refusal(verify, issuer.token(sub=subject)).code == "key_unknown", subject


def test_times_are_kept_with_a_skew_of_a_minute(issuer, verify, clock):
    now = int(clock.now)
    clock.now = float(now)
    assert verify(issuer.token(exp=now - 59)).id == "user:ada"
    expired = refusal(verify, issuer.token(exp=now - 60))
    assert (expired.code, expired.message) == ("key_expired", "The access token has expired")
    for claim in ("nbf", "iat"):
        assert verify(issuer.token(**{claim: now + 60})).id == "user:ada"
        assert refusal(verify, issuer.token(**{claim: now + 61})).details == {"claim": claim}


def test_what_is_no_access_token_is_refused(issuer, verify):
    with all_faults() as case:
        for changes, header in (
            ({"typ": "ID"}, {"typ": "JWT"}),
            ({"typ": "Refresh"}, {"typ": "JWT"}),
            ({"nonce": "n-1"}, {"typ": "JWT"}),
            ({"at_hash": "x"}, {"typ": None}),
            ({"cnf": {"jkt": "thumbprint"}}, {}),
            ({}, {"typ": "logout+jwt"}),
            ({}, {"typ": "dpop+jwt"}),
            ({}, {"typ": 7}),
            ({}, {"crit": ["exp"]}),
            ({}, {"crit": ["b64"], "b64": True}),
            ({}, {"crit": []}),
            ({}, {"b64": False}),
        ):
            with case(changes, header):
                assert refusal(verify, issuer.token(header=header, **changes)).code == "key_unknown"


def test_rubbish_is_refused(verify):
    with all_faults() as case:
        for token in (
            *("", ".", "..", "...", "a.b.c", "ey.ey.ey", "é.é.é", "\ud800.x.y", "\x00", "e30.e30.e30"),
            f"{encoded(b'[]')}.{encoded(b'{}')}.x",
            f"{encoded(b'[' * 5_000)}.{encoded(b'{}')}.x",
            f"{encoded(b'{' + chr(34).encode() + b'alg')}.e30.x",
        ):
            with case(repr(token[:40])), pytest.raises(UnauthorizedError):
                verify(token)


@pytest.mark.parametrize("payload", [b"[]", b"7", b"null", b"[" * 8_000, b"\xff", b"", b'{"exp": 1e999}'])
def test_a_signed_payload_that_is_no_object_is_refused(issuer, verify, payload):
    key = issuer.keys[0]
    signed = f"{encoded({'alg': 'RS256', 'kid': key.kid})}.{encoded(payload)}"
    signature = jwt.get_algorithm_by_name("RS256").sign(signed.encode(), key.private)
    assert refusal(verify, f"{signed}.{encoded(signature)}").code == "key_unknown"


def test_a_huge_token_is_refused_before_it_is_read(issuer, verify):
    padding = MAX_TOKEN_CHARACTERS - len(issuer.token(pad="")) - 8
    fitting = issuer.token(pad="x" * (padding * 3 // 4))
    assert len(fitting) <= MAX_TOKEN_CHARACTERS
    assert verify(fitting).id == "user:ada"
    fetched = issuer.fetches()
    assert (
        refusal(verify, issuer.token(pad="x" * MAX_TOKEN_CHARACTERS, header={"kid": "unknown"})).code == "key_unknown"
    )
    assert issuer.fetches() == fetched


# Who it is.


def test_a_subject_that_is_no_fit_for_ids_is_hashed(issuer, verify):
    long = "s" * 146
    assert verify(issuer.token(sub="s" * 145)).id == f"user:{'s' * 145}"
    hashed = verify(issuer.token(sub=long))
    assert hashed.id == hashed.owner == f"user:sha256-{hashlib.sha256(long.encode()).hexdigest()}"
    ids = {verify(issuer.token(sub=each)).id for each in (long, "a\nb", "\ud800", hashed.id.removeprefix("user:"), "a")}
    assert len(ids) == 5
    assert all(len(each) <= 150 and each.isprintable() for each in ids)
    assert hashed.id in ids


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "Ada", "email": "ada@example.com"}, "Ada"),
        ({"preferred_username": None, "email": "ada@example.com"}, "ada@example.com"),
        ({"preferred_username": None, "email": 7}, "ada"),
        ({"preferred_username": " \n"}, "ada"),
        ({"preferred_username": "A\x1b[31mda\n"}, "A[31mda"),
        ({"preferred_username": "x" * 1_000}, "x" * 150),
        ({"preferred_username": None, "sub": "\x01"}, f"user:sha256-{hashlib.sha256(bytes([1])).hexdigest()}"),
    ],
)
def test_users_are_called_what_people_call_them(issuer, verify, claims, name):
    assert verify(issuer.token(**claims)).name == name


def test_a_token_without_a_scope_gives_no_right_and_without_a_match_in_the_table_no_collections(
    issuer, verify, verifier_of
):
    for scope in ("", "openid profile", "READ", None, 7, {"read": True}):
        caller = verify(issuer.token(scope=scope))
        assert (caller.id, caller.granted) == ("user:ada", frozenset()), scope
    verify = verifier_of(ClaimsTable(collections=Rule(("groups",), {"team-a": ("a-*",)}))).verify
    assert verify(issuer.token(groups=["team-a", "x"])).collections == ("a-*",)
    for groups in (None, [], ["team-b"], "team-", {"team-a": 1}):
        caller = verify(issuer.token(groups=groups))
        assert caller.collections == ()
        assert not caller.knows("a-notes")


def test_a_token_gives_as_many_collections_as_a_key_may_have(issuer, verifier_of):
    given = {"most": tuple(f"shared-{each}" for each in range(MAX_PATTERNS)), "another": ("one-more",)}
    verify = verifier_of(ClaimsTable(collections=Rule(("groups",), given))).verify
    assert len(verify(issuer.token(groups=["most"])).collections) == MAX_PATTERNS
    assert "more than 1,000 collections" in refusal(verify, issuer.token(groups=["most", "another"])).message


# What is remembered.


def test_a_checked_token_is_remembered_for_a_minute_and_none_beyond_its_end(issuer, verify, keys, clock, age):
    token = issuer.token()
    first = verify(token)
    issuer.rotate("second")
    age.now += 300
    keys.keep_fresh()
    assert verify(token) is first
    clock.now += 61
    assert refusal(verify, token).details == {"key": "kid"}
    token = issuer.token(exp=int(clock.now) - 50)
    assert verify(token).id == "user:ada"
    clock.now += 11
    assert refusal(verify, token).code == "key_expired"
