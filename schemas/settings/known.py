"""The variables that are settings, and the setting that an unknown variable may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from fnmatch import fnmatchcase

from schemas.settings.access import AccessSettings
from schemas.settings.environment import PREFIX
from schemas.settings.oidc import OidcSettings
from schemas.settings.registry import RegistrySettings
from schemas.settings.retrieval import RetrievalSettings
from schemas.settings.storage import WrapperSettings
from schemas.settings.tracing import TracingSettings

# Not fields of the settings: these are read as placeholders in a connection.
OTHER_VARIABLES = ("RAG_EMBEDDING_API_KEY", "RAG_CHAT_API_KEY", "RAG_RERANK_API_KEY")
CONFIG_FILE = "RAG_CONFIG_FILE"
SET_BY_FILE = "RAG_SET_BY_FILE"
"""The variable that names those whose values come from the configuration file."""
HOSTED = "RAG_HOSTED_BY"
"""The variable that is set in worker processes whose parent owns the data directory and the engine."""
ALIKE = 0.85
"""The similarity from which a name counts as mistyped: one or two letters in a name of average length."""


def known_settings() -> set[str]:
    """Return the variables that a configuration file may set."""
    kinds = (WrapperSettings, AccessSettings, OidcSettings, RegistrySettings, RetrievalSettings, TracingSettings)
    return {f"{PREFIX}{each.name.upper()}" for kind in kinds for each in fields(kind)}.union(OTHER_VARIABLES)


def unknown_variables(environ: Mapping[str, str], placeholder_patterns: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each variable that looks like a setting but is not one.

    A variable that placeholders may use by a pattern narrower than `RAG_*` is left alone, unless it is nearly a
    setting.
    """
    known = known_settings()
    own = [pattern for pattern in placeholder_patterns if pattern != f"{PREFIX}*"]
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in known or name in (CONFIG_FILE, HOSTED, SET_BY_FILE):
            continue
        meant = get_close_matches(name, known, n=1, cutoff=ALIKE)
        if meant:
            yield f"{name} is no setting: did you mean {meant[0]}?"
        elif not any(fnmatchcase(name, pattern) for pattern in own):
            nearest = get_close_matches(name, known, n=1, cutoff=0)
            yield f"{name} is no setting; the nearest is {nearest[0]}"
