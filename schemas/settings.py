"""Settings, read from the environment once, at the composition root.

A wrong value stops the start with a sentence that names the variable; all wrong ones are named at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml
from environs import Env, EnvError, validate

from schemas.errors import ConfigurationError

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("auto", "json", "console")
TOPIC_KEEPERS = ("off", "rule", "chat")
SQLITE = "sqlite:///"
POSTGRESQL = ("postgresql+psycopg://", "postgresql://")
THREADS_THAT_NEVER_WAIT = 4
THREADS_KEPT_FOR_READS = 2
# Read where they are needed: by the `load` command, and as a placeholder in a connection.
OTHER_VARIABLES = ("RAG_EMBEDDING_API_KEY", "RAG_CHAT_API_KEY", "RAG_CHUNK_MAX_TOKENS")
CONFIG_FILE = "RAG_CONFIG_FILE"
CONNECTIONS = "connections"


@dataclass(frozen=True)
class WrapperSettings:
    """The storage proxy's settings. Each field is `RAG_` and its name in capitals."""

    host: str = "127.0.0.1"
    port: int = 5006
    data_dir: Path = Path("data")
    workers: int = 2
    threads: int = 16
    catalog_url: str = field(default="", repr=False)  # empty: a SQLite file in the data directory
    chroma_url: str = ""  # empty: an engine of our own, as a child process
    max_body_mb: int = 100
    disk_floor_mb: int = 200
    max_queue: int = 128  # requests that may wait for a thread, in each process
    client_wait_seconds: float = 30.0  # how long a client may keep a request waiting
    write_wait_seconds: float = 20.0  # how long a write waits for the index before it answers 202
    cors_origins: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = "auto"

    @property
    def waiting_threads(self) -> int:
        """How many threads of a process may wait for the index, and how many for slow clients."""
        return max(1, self.threads - THREADS_THAT_NEVER_WAIT)

    @property
    def writing_threads(self) -> int:
        """How many threads of a process writes may have: more than may wait, so that further writes go on."""
        return self.threads - THREADS_KEPT_FOR_READS


@dataclass(frozen=True)
class RegistrySettings:
    """The registry's settings. Each field is `RAG_` and its name in capitals."""

    embedding_provider: str = "minilm"
    embedding_url: str = ""  # empty: the provider's own default
    embedding_model: str = ""
    chat_provider: str = ""  # empty: no chat connection of the operator's
    chat_url: str = ""
    chat_model: str = ""
    connect_policy: str = "loopback,private,public"  # whom connections may reach; link-local addresses never
    env_patterns: tuple[str, ...] = (
        "RAG_*",
        "*_API_KEY",
        "*_URL",
        "*_HOST",
        "*OPENAI*",
        "*OLLAMA*",
        "*ANTHROPIC*",
        "*GEMINI*",
        "*CHROMA*",
        "*QDRANT*",
    )  # names that a placeholder may use
    secret_dirs: tuple[str, ...] = ("/run/secrets",)  # where files that a placeholder names may lie
    connect_test_seconds: float = 10.0  # for all stages of a connection test
    health_seconds: float = 5.0  # for the report of one connection
    collect_seconds: float = 10.0  # for all collections of one query
    match_threshold: float = 0.4  # distances, where neither collection, connection nor request says one
    partial_threshold: float = 0.7
    topic: str = "off"  # who keeps topics of conversations: off (the client), rule, chat (the chat connection)
    embedding_cache_seconds: float = 3600.0  # how long the embedding of a query's text is reused


def read_wrapper_settings() -> WrapperSettings:
    """The settings of this process's environment. Raises ConfigurationError naming every wrong variable."""
    env = Env(eager=False, prefix="RAG_")
    default = WrapperSettings()
    at_least_one = validate.Range(min=1)
    values: dict[str, Any] = {
        "host": env.str("HOST", default.host, validate=validate.Length(min=1)),
        "port": env.int("PORT", default.port, validate=validate.Range(min=1, max=65535)),
        "data_dir": env.path("DATA_DIR", default.data_dir),
        "workers": env.int("WORKERS", default.workers, validate=validate.Range(min=1, max=64)),
        "threads": env.int("THREADS", default.threads, validate=validate.Range(min=4, max=256)),
        "catalog_url": env.str("CATALOG_URL", default.catalog_url),
        "chroma_url": env.str("CHROMA_URL", default.chroma_url),
        "max_body_mb": env.int("MAX_BODY_MB", default.max_body_mb, validate=at_least_one),
        "disk_floor_mb": env.int("DISK_FLOOR_MB", default.disk_floor_mb, validate=validate.Range(min=0)),
        "max_queue": env.int("MAX_QUEUE", default.max_queue, validate=at_least_one),
        "client_wait_seconds": env.float(
            "CLIENT_WAIT_SECONDS", default.client_wait_seconds, validate=validate.Range(min=1)
        ),
        "write_wait_seconds": env.float(
            "WRITE_WAIT_SECONDS", default.write_wait_seconds, validate=validate.Range(min=0)
        ),
        "cors_origins": env.list("CORS_ORIGINS", list(default.cors_origins)),
        "log_level": env.str("LOG_LEVEL", default.log_level, validate=validate.OneOf(LOG_LEVELS)),
        "log_format": env.str("LOG_FORMAT", default.log_format, validate=validate.OneOf(LOG_FORMATS)),
    }
    _seal(env)
    values["cors_origins"] = tuple(values["cors_origins"])
    values["data_dir"] = values["data_dir"].resolve()
    if values["catalog_url"].startswith(SQLITE):
        values["catalog_url"] = SQLITE + str(Path(values["catalog_url"].removeprefix(SQLITE)).resolve())
    settings = WrapperSettings(**values)
    for variable, url, schemes in (
        ("RAG_CHROMA_URL", settings.chroma_url, ("http://", "https://")),
        ("RAG_CATALOG_URL", settings.catalog_url, (SQLITE, *POSTGRESQL)),
    ):
        if url and not url.startswith(schemes):
            raise ConfigurationError(f"Wrong settings: {variable} must start with {' or '.join(schemes)}")
    return settings


def read_registry_settings() -> RegistrySettings:
    """The same for the registry."""
    env = Env(eager=False, prefix="RAG_")
    default = RegistrySettings()
    positive, distance = validate.Range(min=0.1, max=600), validate.Range(min=-1e9, max=1e9)
    values: dict[str, Any] = {
        "embedding_provider": env.str("EMBEDDING_PROVIDER", default.embedding_provider),
        "embedding_url": env.str("EMBEDDING_URL", default.embedding_url),
        "embedding_model": env.str("EMBEDDING_MODEL", default.embedding_model),
        "chat_provider": env.str("CHAT_PROVIDER", default.chat_provider),
        "chat_url": env.str("CHAT_URL", default.chat_url),
        "chat_model": env.str("CHAT_MODEL", default.chat_model),
        "connect_policy": env.str("CONNECT_POLICY", default.connect_policy),
        "env_patterns": env.list("ENV_PATTERNS", list(default.env_patterns)),
        "secret_dirs": env.list("SECRET_DIRS", list(default.secret_dirs)),
        "connect_test_seconds": env.float("CONNECT_TEST_SECONDS", default.connect_test_seconds, validate=positive),
        "health_seconds": env.float("HEALTH_SECONDS", default.health_seconds, validate=positive),
        "collect_seconds": env.float("COLLECT_SECONDS", default.collect_seconds, validate=positive),
        "match_threshold": env.float("MATCH_THRESHOLD", default.match_threshold, validate=distance),
        "partial_threshold": env.float("PARTIAL_THRESHOLD", default.partial_threshold, validate=distance),
        "topic": env.str("TOPIC", default.topic, validate=validate.OneOf(TOPIC_KEEPERS)),
        "embedding_cache_seconds": env.float(
            "EMBEDDING_CACHE_SECONDS", default.embedding_cache_seconds, validate=validate.Range(min=0)
        ),
    }
    _seal(env)
    for name in ("env_patterns", "secret_dirs"):
        values[name] = tuple(part.strip() for part in values[name] if part.strip())
    return RegistrySettings(**values)


def read_declared_connections() -> dict[str, Any]:
    """The connections of the configuration file that this process was started with, by id, as they are written."""
    path = os.environ.get(CONFIG_FILE)
    declared = _read_config_file(Path(path)).get(CONNECTIONS) if path else None
    if declared is None:
        return {}
    if not isinstance(declared, dict) or not all(isinstance(each, dict) for each in declared.values()):
        raise ConfigurationError(f"connections in {path} must map ids to connections (type, provider, config)")
    return {str(name): connection for name, connection in declared.items()}


def apply_config_file(path: Path) -> None:
    """Take a YAML file's settings into the environment, which wins where it says something already.

    The file maps variables to scalars or lists, with or without the `RAG_` prefix, in any case of letters. Its
    `connections` are read by `read_declared_connections`.
    """
    os.environ[CONFIG_FILE] = str(path.resolve())
    known = {f"RAG_{each.name.upper()}" for kind in (WrapperSettings, RegistrySettings) for each in fields(kind)}
    known.update(OTHER_VARIABLES)
    for name, value in _read_config_file(path).items():
        if name == CONNECTIONS:
            continue
        variable = str(name).upper()
        variable = variable if variable.startswith("RAG_") else f"RAG_{variable}"
        if variable not in known:
            raise ConfigurationError(f"{path} has an unknown setting '{name}'", allowed=sorted(known))
        if isinstance(value, list):
            value = ",".join(str(item) for item in value)
        if isinstance(value, dict) or value is None:
            raise ConfigurationError(f"{name} in {path} must be a value or a list of values")
        os.environ.setdefault(variable, str(value))


def _read_config_file(path: Path) -> dict[Any, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"Cannot read the configuration file {path}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"The configuration file {path} must map names to values")
    return content


def _seal(env: Env) -> None:
    try:
        env.seal()
    except EnvError as error:
        raise ConfigurationError(f"Wrong settings: {_sentence(error)}") from None


def _sentence(error: EnvError) -> str:
    messages = getattr(error, "error_messages", None) or {"": [str(error)]}
    return "; ".join(
        f"{variable}: {' '.join(str(reason) for reason in reasons)}" for variable, reasons in messages.items()
    )
