"""Settings, read from the environment once, at the composition root.

Wrong values stop the start with a sentence that names all wrong variables at once.
"""

from schemas.settings.access import KEYS, OPEN, AccessSettings, read_access_settings
from schemas.settings.config_file import CONNECTIONS, apply_config_file, read_declared_connections
from schemas.settings.known import CONFIG_FILE, HOSTED, SET_BY_FILE, known_settings, unknown_variables
from schemas.settings.oidc import OidcSettings, read_oidc_settings
from schemas.settings.registry import RegistrySettings, read_registry_settings
from schemas.settings.retrieval import RetrievalSettings, read_retrieval_settings
from schemas.settings.storage import POSTGRESQL, SQLITE, WrapperSettings, read_log_settings, read_wrapper_settings
from schemas.settings.tracing import TracingSettings, read_tracing_headers, read_tracing_settings

__all__ = [
    "CONFIG_FILE",
    "CONNECTIONS",
    "HOSTED",
    "KEYS",
    "OPEN",
    "POSTGRESQL",
    "SET_BY_FILE",
    "SQLITE",
    "AccessSettings",
    "OidcSettings",
    "RegistrySettings",
    "RetrievalSettings",
    "TracingSettings",
    "WrapperSettings",
    "apply_config_file",
    "known_settings",
    "read_access_settings",
    "read_declared_connections",
    "read_log_settings",
    "read_oidc_settings",
    "read_registry_settings",
    "read_retrieval_settings",
    "read_tracing_headers",
    "read_tracing_settings",
    "read_wrapper_settings",
    "unknown_variables",
]
