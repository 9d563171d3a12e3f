"""How a Chroma server is asked: which tenant and database, with what token, trusting whom."""

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
    """The names and the token of a Chroma server; the defaults are those of a stock one, which asks for no token. Only
    the authority in `ca_file` (PEM) is trusted where there is one, else those of the system."""

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
        """What goes with every request."""
        if not self.token:
            return {}
        is_bearer = self.token_header.lower() == AUTHORIZATION
        return {self.token_header: f"Bearer {self.token}" if is_bearer else self.token}

    def tls_context(self) -> ssl.SSLContext:
        """Raises OSError when the file of the authority cannot be read, or holds none."""
        return ssl.create_default_context(cafile=self.ca_file)

    def without_token(self, text: str) -> str:
        """A text of the server's, which may repeat what it was sent."""
        return text.replace(self.token, "…") if self.token else text


STOCK = EngineAccess()
