"""The settings of the registry of providers and of its collector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from environs import validate

from schemas.settings.environment import LONGEST_KEPT_SECONDS, OneWordOf, environment, seal

TOPIC_KEEPERS = ("off", "rule", "chat")


@dataclass(frozen=True)
class RegistrySettings:
    """The registry's settings. Each field is set by the variable `RAG_` plus its name in capitals."""

    embedding_provider: str = "minilm"
    embedding_url: str = ""  # empty: the provider's own default
    embedding_model: str = ""
    embedding_calibration: str = ""  # a file with what a cosine means by some models; empty: the built-in ones
    chat_provider: str = ""  # empty: the operator configures no chat connection
    chat_url: str = ""
    chat_model: str = ""
    rerank_provider: str = ""  # empty: the operator configures no reranking connection
    rerank_url: str = ""
    rerank_model: str = ""
    connect_policy: str = "loopback,private,public"  # what connections may reach; never link-local addresses
    ca_file: str = ""  # PEM file of the authorities to trust in other services; empty: the usual ones
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
    )  # variables that a placeholder may use
    secret_dirs: tuple[str, ...] = ("/run/secrets",)  # where the files of placeholders may lie
    secret_hosts: tuple[str, ...] = ()  # the only hosts a variable may go to: NAME=host[:port]; empty: any host
    connect_test_seconds: float = 10.0  # time limit of all stages of a connection test
    health_seconds: float = 5.0  # time limit of the report of one connection
    health_look_seconds: float = 30.0  # how often each process checks the embedding and chat services
    collect_seconds: float = 10.0  # time limit of one query to all its collections
    match_threshold: float = 0.4  # distances, used where neither collection, connection nor request sets one
    partial_threshold: float = 0.7
    topic: str = "off"  # keeper of conversations' topics: off (the client), rule, chat (the chat connection)
    embedding_cache_seconds: float = 3600.0  # how long the embedding of a query's text is reused


def read_registry_settings() -> RegistrySettings:
    """Read the settings from this process's environment. Raises ConfigurationError naming every wrong variable."""
    env = environment()
    default = RegistrySettings()
    positive, distance = validate.Range(min=0.1, max=600), validate.Range(min=-1e9, max=1e9)
    values: dict[str, Any] = {
        "embedding_provider": env.str("EMBEDDING_PROVIDER", default.embedding_provider),
        "embedding_url": env.str("EMBEDDING_URL", default.embedding_url),
        "embedding_model": env.str("EMBEDDING_MODEL", default.embedding_model),
        "embedding_calibration": env.str("EMBEDDING_CALIBRATION", default.embedding_calibration),
        "chat_provider": env.str("CHAT_PROVIDER", default.chat_provider),
        "chat_url": env.str("CHAT_URL", default.chat_url),
        "chat_model": env.str("CHAT_MODEL", default.chat_model),
        "rerank_provider": env.str("RERANK_PROVIDER", default.rerank_provider),
        "rerank_url": env.str("RERANK_URL", default.rerank_url),
        "rerank_model": env.str("RERANK_MODEL", default.rerank_model),
        "connect_policy": env.str("CONNECT_POLICY", default.connect_policy),
        "ca_file": env.str("CA_FILE", default.ca_file),
        "env_patterns": env.list("ENV_PATTERNS", list(default.env_patterns)),
        "secret_dirs": env.list("SECRET_DIRS", list(default.secret_dirs)),
        "secret_hosts": env.list("SECRET_HOSTS", list(default.secret_hosts)),
        "connect_test_seconds": env.float("CONNECT_TEST_SECONDS", default.connect_test_seconds, validate=positive),
        "health_seconds": env.float("HEALTH_SECONDS", default.health_seconds, validate=positive),
        "health_look_seconds": env.float(
            "HEALTH_LOOK_SECONDS", default.health_look_seconds, validate=validate.Range(min=1, max=3_000)
        ),
        "collect_seconds": env.float("COLLECT_SECONDS", default.collect_seconds, validate=positive),
        "match_threshold": env.float("MATCH_THRESHOLD", default.match_threshold, validate=distance),
        "partial_threshold": env.float("PARTIAL_THRESHOLD", default.partial_threshold, validate=distance),
        "topic": env.str("TOPIC", default.topic, validate=OneWordOf(TOPIC_KEEPERS)),
        "embedding_cache_seconds": env.float(
            "EMBEDDING_CACHE_SECONDS",
            default.embedding_cache_seconds,
            validate=validate.Range(min=0, max=LONGEST_KEPT_SECONDS),
        ),
    }
    seal(env)
    values["topic"] = values["topic"].lower()
    for name in ("env_patterns", "secret_dirs", "secret_hosts"):
        values[name] = tuple(part.strip() for part in values[name] if part.strip())
    return RegistrySettings(**values)
