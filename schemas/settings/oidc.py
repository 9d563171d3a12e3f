"""The settings of the identity provider whose users may call the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from environs import validate
from marshmallow import ValidationError

from schemas.errors import ConfigurationError
from schemas.host_patterns import Authority
from schemas.settings.environment import environment, seal

MAX_ISSUER_CHARACTERS = 1_000


@dataclass(frozen=True)
class OidcSettings:
    """The settings of users. Each field is set by the variable `RAG_` plus its name in capitals."""

    oidc_issuer: str = ""  # the provider's name in its tokens, which is a URL; empty: there are no users
    oidc_audience: tuple[str, ...] = ()  # what tokens for this service name as their audience, one of these
    oidc_claims: str = ""  # a YAML file: which claims give which scopes and collections

    @property
    def has_users(self) -> bool:
        return bool(self.oidc_issuer)


def read_oidc_settings() -> OidcSettings:
    """Read the settings from this process's environment. Raises ConfigurationError naming every wrong variable."""
    env = environment()
    default = OidcSettings()
    values: dict[str, Any] = {
        "oidc_issuer": env.str("OIDC_ISSUER", default.oidc_issuer, validate=_check_issuer),
        "oidc_audience": env.list("OIDC_AUDIENCE", list(default.oidc_audience), subcast=str),
        "oidc_claims": env.str("OIDC_CLAIMS", default.oidc_claims, validate=validate.Length(max=4_096)),
    }
    seal(env)
    audiences = (each.strip() for each in values["oidc_audience"])
    settings = OidcSettings(**{**values, "oidc_audience": tuple(each for each in audiences if each)})
    _check_together(settings)
    return settings


def may_be_asked(url: str) -> bool:
    """Return whether keys may be fetched from a URL: it is https, or on this machine, and holds no password."""
    try:
        parts = urlsplit(url)
        host = Authority.parse(parts.netloc)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host.is_loopback)


def _check_issuer(url: str) -> None:
    if not url:
        return
    plain = url.isascii() and url.isprintable() and not any(each in url for each in " ?#@\\")
    if len(url) > MAX_ISSUER_CHARACTERS or not plain or not may_be_asked(url):
        raise ValidationError("Must be an https URL (http on loopback only), without credentials, query or fragment.")


def _check_together(settings: OidcSettings) -> None:
    if settings.has_users and not settings.oidc_audience:
        raise ConfigurationError("RAG_OIDC_AUDIENCE must name the audience of the tokens that RAG_OIDC_ISSUER issues")
    if not settings.has_users and (settings.oidc_audience or settings.oidc_claims):
        raise ConfigurationError("RAG_OIDC_AUDIENCE and RAG_OIDC_CLAIMS mean nothing without RAG_OIDC_ISSUER")
