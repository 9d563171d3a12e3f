"""What clients are told that come without a valid token: where to get one (RFC 9728), so that they log in by
themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Request, Response, current_app, request

from schemas.access.callers import Scope
from schemas.errors import NotFoundError, RagError, UnauthorizedError
from wrapper.web.bodies import json_response
from wrapper.web.error_statuses import SCOPE_MISSING
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

if TYPE_CHECKING:
    from interfaces.identity.verifier import Verifier

IDENTITY = "rag.identity"
"""Where the application keeps its `Verifier`, if it has users."""
WELL_KNOWN = "/.well-known/oauth-protected-resource"
MCP = "/mcp"
OF_MCP = WELL_KNOWN + MCP
INVALID_TOKEN, INSUFFICIENT_SCOPE = "invalid_token", "insufficient_scope"
MISSING = "key_missing"

blueprint = Blueprint("protected_resource", __name__)


@blueprint.get(WELL_KNOWN, defaults={"below": ""})
@blueprint.get(OF_MCP, defaults={"below": MCP})
@declare(Lane.LIFE, own_rules=True, exact=True)
def protected_resource(below: str) -> Response:
    """Tell a client what it has to know to get a token for the resource, which is named by the URL it was asked by
    unless the settings name it."""
    identity: Verifier | None = current_app.extensions.get(IDENTITY)
    if identity is None:
        raise NotFoundError("This service has no identity provider (RAG_OIDC_ISSUER)", code="route_not_found")
    offered = identity.table.offered()
    return json_response(
        {
            "resource": identity.resource or request.host_url.rstrip("/") + below,
            "authorization_servers": [identity.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "rag-wrapper",
            **({"scopes_supported": list(offered)} if offered else {}),
        }
    )


def challenge(refused: Request, error: RagError | None = None) -> str:
    """Return the `WWW-Authenticate` of a refusal: what is wrong with the token, if there was one, and where the way to
    a token is described."""
    identity: Verifier | None = current_app.extensions.get(IDENTITY)
    if identity is None:
        return "Bearer"
    # The URL of the settings knows of a path that a proxy puts in front.
    base = (identity.resource or refused.host_url).rstrip("/").removesuffix(MCP)
    said = {"resource_metadata": base + (OF_MCP if refused.path == MCP else WELL_KNOWN)}
    if isinstance(error, UnauthorizedError) and error.code != MISSING:
        said |= {"error": INVALID_TOKEN, "error_description": error.message}
    elif error is not None and error.code == SCOPE_MISSING:
        said |= {"error": INSUFFICIENT_SCOPE, **_scope(identity, error.details.get("scope"))}
    return f"Bearer {', '.join(f'{name}={_quoted(value)}' for name, value in said.items())}"


def _scope(identity: Verifier, scope: object) -> dict[str, str]:
    wanted = identity.table.asked_for(Scope(scope)) if isinstance(scope, str) and scope in list(Scope) else None
    return {} if wanted is None else {"scope": wanted}


def _quoted(value: str) -> str:
    """Return a quoted string (RFC 9110, 5.6.4) of the characters that a header may have."""
    plain = "".join(each if " " <= each <= "~" else "?" for each in value)
    return '"{}"'.format(plain.replace("\\", "\\\\").replace('"', '\\"'))
