"""The access to a Chroma server: its tenant and database, the token to send, the authority to trust."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

DEFAULT_TENANT, DEFAULT_DATABASE = "default_tenant", "default_database"
AUTHORIZATION = "authorization"


@dataclass(frozen=True)
class EngineAccess:
    """The names and the token for a Chroma server. The defaults suit a stock server, which asks for no token.

    With a `ca_file` (PEM) only the authority in it is trusted, without one those of the system.
    """

    tenant: str = DEFAULT_TENANT
    database: str = DEFAULT_DATABASE
    token: str = field(default="", repr=False)
    token_header: str = "X-Chroma-Token"
    ca_file: Path | None = None

    @property
    def tenant_path(self) -> str:
        return f"/api/v2/tenants/{quote(self.tenant, safe='')}"

    @property
    def database_path(self) -> str:
        return f"{self.tenant_path}/databases/{quote(self.database, safe='')}"

    @property
    def collections_path(self) -> str:
        return f"{self.database_path}/collections"

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request."""
        if not self.token:
            return {}
        is_bearer = self.token_header.lower() == AUTHORIZATION
        return {self.token_header: f"Bearer {self.token}" if is_bearer else self.token}

    def tls_context(self) -> ssl.SSLContext:
        """Make the TLS context. Raises OSError when the authority's file cannot be read or holds no certificate."""
        return ssl.create_default_context(cafile=self.ca_file)

    def without_token(self, text: str) -> str:
        """Return a text from the server without the token, which the server may have repeated."""
        return text.replace(self.token, "…") if self.token else text


STOCK = EngineAccess()
