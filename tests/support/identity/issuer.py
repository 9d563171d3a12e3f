"""Run an identity provider on loopback: discovery, keys, registration of clients, logging in, tokens.

It speaks OpenID Connect as far as programs need to log a user in by themselves: dynamic registration (RFC 7591), the
authorization code with PKCE (RFC 7636), resource indicators (RFC 8707) and refresh tokens. Whoever asks is logged in
as `user`, without a page. It signs wrong tokens too, and fails on request.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.support.live import PATIENCE_SECONDS

AUDIENCE = "https://rag.example"
TOKEN_SECONDS = 600
ALGORITHMS = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
DISCOVERY, JWKS = "/.well-known/openid-configuration", "/keys"
SIZES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1}


@dataclass(frozen=True)
class SigningKey:
    kid: str
    algorithm: str
    private: Any

    def jwk(self, **fields: object) -> dict[str, Any]:
        """Return the public key as providers publish it; a field of None is left out."""
        kinds = {"R": RSAAlgorithm, "P": RSAAlgorithm, "E": ECAlgorithm}
        kind = OKPAlgorithm if self.algorithm == "EdDSA" else kinds[self.algorithm[0]]
        public = kind.to_jwk(self.private.public_key(), as_dict=True)
        public.pop("key_ops", None)
        said = {**public, "kid": self.kid, "alg": self.algorithm, "use": "sig", **fields}
        return {name: value for name, value in said.items() if value is not None}


def signing_key(kid: str, algorithm: str = "RS256") -> SigningKey:
    """Return a key, the same for the same name."""
    return _key(kid, algorithm)


@cache
def _key(kid: str, algorithm: str) -> SigningKey:
    if algorithm == "EdDSA":
        return SigningKey(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
    if algorithm in SIZES:
        return SigningKey(kid, algorithm, ec.generate_private_key(SIZES[algorithm]()))
    return SigningKey(kid, algorithm, rsa.generate_private_key(65537, 2048))


def encoded(value: bytes | dict[str, Any]) -> str:
    """Return a part of a token: base64url without padding."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@dataclass
class Grant:
    """What a code or a refresh token stands for."""

    client_id: str
    redirect_uri: str
    challenge: str
    scope: str
    audience: str
    is_used: bool = False


@dataclass
class Behaviour:
    """How the provider fails: not at all, unless a test says so. `hold` keeps every answer back until it is set."""

    is_down: bool = False
    hold: threading.Event | None = None
    said: dict[str, bytes] = field(default_factory=dict)
    """What is answered at a path instead of the truth."""
    redirects: dict[str, str] = field(default_factory=dict)


class Issuer:
    """The provider. `asked` are the paths that were asked for, in order."""

    def __init__(self) -> None:
        self.keys = [signing_key("first")]
        self.user: dict[str, Any] = {"sub": "ada", "preferred_username": "Ada"}
        self.grants_scopes: tuple[str, ...] = ("read",)
        self.algorithms: tuple[str, ...] | None = ALGORITHMS
        self.first_seconds = TOKEN_SECONDS
        """How long the token of a login is good for; a refreshed one is always good for `TOKEN_SECONDS`."""
        self.asked: list[str] = []
        self.clients: dict[str, dict[str, Any]] = {}
        self.behaviour = Behaviour()
        self._grants: dict[str, Grant] = {}
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def fetches(self) -> int:
        """Return how often the keys were asked for."""
        return self.asked.count(JWKS)

    def rotate(self, kid: str, algorithm: str = "RS256") -> SigningKey:
        """Sign with a new key from now on, and withdraw all others."""
        self.keys = [signing_key(kid, algorithm)]
        return self.keys[0]

    def claims(self, **changes: object) -> dict[str, Any]:
        """Return the claims of an access token for the audience of the tests; one of None is left out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + TOKEN_SECONDS, "scope": "read", **self.user}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def token(self, *, key: SigningKey | None = None, header: dict[str, Any] | None = None, **changes: object) -> str:
        """Return a signed token; a field of the header of None is left out."""
        key = key or self.keys[0]
        said = {"alg": key.algorithm, "typ": "at+jwt", "kid": key.kid, **(header or {})}
        signed = ".".join(
            (
                encoded({name: value for name, value in said.items() if value is not None}),
                encoded(self.claims(**changes)),
            )
        )
        method = jwt.get_algorithm_by_name(key.algorithm)
        return f"{signed}.{encoded(method.sign(signed.encode(), key.private))}"

    def stop(self) -> None:
        if self.behaviour.hold is not None:
            self.behaviour.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def document(self, path: str) -> dict[str, Any] | None:
        if path == JWKS:
            return {"keys": [each.jwk() for each in self.keys]}
        if path not in (DISCOVERY, "/.well-known/oauth-authorization-server"):
            return None
        listed = {} if self.algorithms is None else {"id_token_signing_alg_values_supported": self.algorithms}
        return {
            "issuer": self.url,
            "jwks_uri": self.url + JWKS,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "subject_types_supported": ["public"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            **listed,
        }

    def register(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Register a client, without a secret."""
        if not asked.get("redirect_uris"):
            return 400, {"error": "invalid_redirect_uri"}
        client_id = secrets.token_urlsafe(8)
        self.clients[client_id] = {**asked, "client_id": client_id, "token_endpoint_auth_method": "none"}
        return 201, self.clients[client_id]

    def authorize(self, asked: dict[str, str]) -> str | None:
        """Log the user in and return the URL that leads back to the client, None when the request is wrong."""
        client = self.clients.get(asked.get("client_id", ""))
        fits = asked.get("response_type") == "code" and asked.get("code_challenge_method") == "S256"
        if client is None or not fits or asked.get("redirect_uri") not in client["redirect_uris"]:
            return None
        granted = [each for each in asked.get("scope", "").split() if each in self.grants_scopes]
        code = secrets.token_urlsafe(16)
        self._grants[code] = Grant(
            client["client_id"],
            asked["redirect_uri"],
            asked["code_challenge"],
            " ".join(granted),
            asked.get("resource", AUDIENCE),
        )
        back = {"code": code, "state": asked.get("state", ""), "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def exchange(self, asked: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Give tokens for a code, which is good once, or for a refresh token."""
        refreshes = asked.get("grant_type") == "refresh_token"
        grant = self._grants.get(asked.get("refresh_token" if refreshes else "code", ""))
        if grant is None or grant.is_used or grant.client_id != asked.get("client_id"):
            return 400, {"error": "invalid_grant"}
        grant.is_used = True
        if not refreshes:
            proof = encoded(hashlib.sha256(asked.get("code_verifier", "").encode()).digest())
            if proof != grant.challenge or asked.get("redirect_uri") != grant.redirect_uri:
                return 400, {"error": "invalid_grant"}
        refresh = secrets.token_urlsafe(16)
        self._grants[refresh] = Grant(grant.client_id, grant.redirect_uri, "", grant.scope, grant.audience)
        seconds = TOKEN_SECONDS if refreshes else self.first_seconds
        ends = int(time.time()) + seconds
        return 200, {
            "access_token": self.token(aud=grant.audience, scope=grant.scope, client_id=grant.client_id, exp=ends),
            "token_type": "Bearer",
            "expires_in": seconds,
            "scope": grant.scope,
            "refresh_token": refresh,
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Do nothing, because some tests hang up in the middle."""


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def do_GET(self):
            parts = urlsplit(self.path)
            if self._fails(parts.path):
                return
            if parts.path == "/authorize":
                back = issuer.authorize(dict(parse_qsl(parts.query)))
                self._answer(302 if back else 400, b"", Location=back or "")
            elif (document := issuer.document(parts.path)) is not None:
                self._answer(200, json.dumps(document).encode())
            else:
                self._answer(404, b"{}")

        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if self._fails(self.path):
                return
            if self.path == "/register":
                status, answer = issuer.register(json.loads(content))
            else:
                status, answer = issuer.exchange({name: value for name, [value] in parse_qs(content).items()})
            self._answer(status, json.dumps(answer).encode())

        def _fails(self, path):
            issuer.asked.append(path)
            behaviour = issuer.behaviour
            if behaviour.hold is not None:
                behaviour.hold.wait(PATIENCE_SECONDS)
            if behaviour.is_down:
                self.close_connection = True
            elif path in behaviour.redirects:
                self._answer(302, b"", Location=behaviour.redirects[path])
            elif path in behaviour.said:
                self._answer(200, behaviour.said[path])
            else:
                return False
            return True

        def _answer(self, status, content, **headers):
            with suppress(OSError):
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *args):
            pass

    return Handler


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    try:
        yield issuer
    finally:
        issuer.stop()
