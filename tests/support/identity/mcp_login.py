"""The official MCP client with its own OAuth: it finds the issuer, registers and logs in by itself.

Only the browser is replaced: the user's page is asked for without showing it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from tests.support.live import PATIENCE_SECONDS

CALLBACK = "http://127.0.0.1:33418/callback"
"""Where the issuer sends the user back to; nobody listens there, because the address is only read."""


class Kept:
    """What the client keeps between its runs. `logins` counts how often the user was asked."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.logins: list[dict[str, str]] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@asynccontextmanager
async def logging_in(url: str, kept: Kept) -> AsyncIterator[Client]:
    """Give a client of the MCP server at `url` that logs in when it is told to."""
    answer: list[str] = []

    async def show(address: str) -> None:
        kept.logins.append(dict(parse_qsl(urlsplit(address).query)))
        async with httpx2.AsyncClient() as browser:
            response = await browser.get(address)
        answer.append(response.headers["location"])

    async def come_back() -> AuthorizationCodeResult:
        said = dict(parse_qsl(urlsplit(answer.pop()).query))
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said["iss"])

    about = OAuthClientMetadata(redirect_uris=[CALLBACK], client_name="test", token_endpoint_auth_method="none")
    auth = OAuthClientProvider(url, about, kept, show, come_back)
    async with httpx2.AsyncClient(auth=auth, timeout=PATIENCE_SECONDS) as http:
        yield Client(streamable_http_client(url, http_client=http))
