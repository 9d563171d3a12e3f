"""The storage proxy's settings."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from environs import validate

from schemas.errors import ConfigurationError
from schemas.host_patterns import HostPattern, OriginPattern
from schemas.observing.log_formats import LOG_FORMATS
from schemas.settings.backup_times import BackupTimes, are_times
from schemas.settings.environment import LONGEST_WAIT_SECONDS, PREFIX, OneWordOf, environment, seal
from schemas.storage.engine_records import AUTO, NEW_RECORDS
from schemas.storage.recall import LEAST_RECALL
from schemas.storage.write_waits import INDEX, WAITS

LOG_LEVELS = ("debug", "info", "warning", "error")
SQLITE = "sqlite:///"
POSTGRESQL = ("postgresql+psycopg://", "postgresql://")
OWN_SCHEMA = "rag_wrapper"
SCHEMA_NAME = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}")
A_HOST = "a host: rag.example, rag.example:8443, *.corp.example or an address"
AN_ORIGIN = "an origin: https://console.example, http://localhost:3000 or https://*.corp.example, without a path"
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
TOKEN = re.compile(r"[!-~]+")
THREADS_THAT_NEVER_WAIT = 4
FEWER_WRITES = 2


@dataclass(frozen=True)
class WrapperSettings:
    """The storage proxy's settings. Each field is set by the variable `RAG_` plus its name in capitals."""

    host: str = "127.0.0.1"
    port: int = 5006
    tls_cert: str = ""  # PEM file of the service's certificate and its chain; empty: plain HTTP
    tls_key: str = ""  # PEM file of its private key
    data_dir: Path = Path("data")
    workers: int = 2
    threads: int = 16  # reads at a time in each process; writes are two fewer, its own computations as many
    service_threads: int = 32  # requests of each process that may wait for other services at a time, half for one
    service_seconds: float = 120.0  # how long a request may wait for other services in all
    query_seconds: float = 60.0  # how long a request may read
    catalog_url: str = field(default="", repr=False)  # empty: a SQLite file in the data directory
    catalog_schema: str = ""  # schema of the catalogue on PostgreSQL; empty: OWN_SCHEMA, or where one is already
    chroma_url: str = ""  # empty: an engine of our own, as a child process
    chroma_token: str = field(default="", repr=False)  # the token that a Chroma server requires; empty: none
    chroma_token_header: str = "X-Chroma-Token"  # header of the token; in Authorization it is a bearer token
    chroma_tenant: str = "default_tenant"
    chroma_database: str = "default_database"
    chroma_ca_file: str = ""  # PEM file of the only authority to trust; empty: the system's authorities
    engine_records: str = AUTO  # what the engine's records of a new collection have: NEW_RECORDS
    adopt: bool = True  # whether collections that other clients made in the engine are taken in
    allow_reset: bool = False  # whether clients of Chroma's protocol may delete everything at once: for tests
    max_body_mb: int = 100
    disk_floor_mb: int = 200
    memory_vectors_mb: int | None = None  # codes of vectors to search without the index; None: by the machine
    tombstone_days: int = 30  # how long it is known what was deleted, for those who follow a collection
    exact_ms: int = 100  # longest an exact answer may take; beyond it the vector index is asked
    recall: float = LEAST_RECALL  # recall@10 below which no answer is left to a collection's vector index
    max_queue: int = 128  # requests of one kind that may wait for their turn, in each process
    client_wait_seconds: float = 30.0  # how long a client may keep a request waiting
    export_seconds: float = 3600.0  # how long a client may take for an export before it is cut
    write_wait: str = INDEX  # what the answer to a write waits for when its request does not say: WAITS
    write_wait_seconds: float = 20.0  # how long a write waits for the index before it answers 202
    allowed_hosts: tuple[str, ...] = ()  # host names of the service, beside those of this machine and `host`
    cors_origins: tuple[str, ...] = ()  # origins of pages that may call the service
    log_level: str = "info"
    log_format: str = "auto"
    backup_dir: Path | None = None  # folder of the backups that the service makes; None: it makes none
    backup_every: BackupTimes | None = None  # when it makes one by itself; None: never
    backup_keep: int = 7  # how many of them are kept
    backup_key: str = field(default="", repr=False)  # 32 bytes in base64 that backups are encrypted under; empty: plain
    backup_key_file: str = ""  # file that holds it
    migration_backup: bool = True  # whether a copy of the catalogue is kept before another release changes it

    @property
    def scheme(self) -> str:
        """The scheme of the service's URLs."""
        return "https" if self.tls_cert else "http"

    @property
    def waiting_threads(self) -> int:
        """The number of a process's threads that may wait for the index. As many may wait for slow clients."""
        return max(1, self.threads - THREADS_THAT_NEVER_WAIT)

    @property
    def writing_threads(self) -> int:
        """The number of writes that a process works on at once: more than may wait, so that further writes proceed."""
        return self.threads - FEWER_WRITES


def read_wrapper_settings() -> WrapperSettings:
    """Read the settings from this process's environment. Raises ConfigurationError naming every wrong variable."""
    env = environment()
    default = WrapperSettings()
    at_least_one = validate.Range(min=1)
    values: dict[str, Any] = {
        "host": env.str("HOST", default.host, validate=validate.Length(min=1)),
        "port": env.int("PORT", default.port, validate=validate.Range(min=1, max=65535)),
        "tls_cert": env.str("TLS_CERT", default.tls_cert),
        "tls_key": env.str("TLS_KEY", default.tls_key),
        "data_dir": env.path("DATA_DIR", default.data_dir),
        "workers": env.int("WORKERS", default.workers, validate=validate.Range(min=1, max=64)),
        "threads": env.int("THREADS", default.threads, validate=validate.Range(min=4, max=256)),
        "service_threads": env.int("SERVICE_THREADS", default.service_threads, validate=validate.Range(min=1, max=256)),
        "service_seconds": env.float(
            "SERVICE_SECONDS", default.service_seconds, validate=validate.Range(min=0.1, max=3600)
        ),
        "query_seconds": env.float("QUERY_SECONDS", default.query_seconds, validate=validate.Range(min=0.1, max=3600)),
        "catalog_url": env.str("CATALOG_URL", default.catalog_url),
        "catalog_schema": env.str("CATALOG_SCHEMA", default.catalog_schema),
        "chroma_url": env.str("CHROMA_URL", default.chroma_url),
        "chroma_token": env.str("CHROMA_TOKEN", default.chroma_token),
        "chroma_token_header": env.str("CHROMA_TOKEN_HEADER", default.chroma_token_header),
        "chroma_tenant": env.str("CHROMA_TENANT", default.chroma_tenant, validate=validate.Length(min=3)),
        "chroma_database": env.str("CHROMA_DATABASE", default.chroma_database, validate=validate.Length(min=3)),
        "chroma_ca_file": env.str("CHROMA_CA_FILE", default.chroma_ca_file),
        "engine_records": env.str("ENGINE_RECORDS", default.engine_records, validate=OneWordOf(NEW_RECORDS)),
        "adopt": env.bool("ADOPT", default.adopt),
        "allow_reset": env.bool("ALLOW_RESET", default.allow_reset),
        "max_body_mb": env.int("MAX_BODY_MB", default.max_body_mb, validate=at_least_one),
        "disk_floor_mb": env.int("DISK_FLOOR_MB", default.disk_floor_mb, validate=validate.Range(min=0)),
        "memory_vectors_mb": env.int("MEMORY_VECTORS_MB", None, validate=validate.Range(min=0)),
        "tombstone_days": env.int("TOMBSTONE_DAYS", default.tombstone_days, validate=validate.Range(min=1, max=36_500)),
        "exact_ms": env.int("EXACT_MS", default.exact_ms, validate=validate.Range(min=0)),
        "recall": env.float("RECALL", default.recall, validate=validate.Range(min=0, max=1)),
        "max_queue": env.int("MAX_QUEUE", default.max_queue, validate=validate.Range(min=1, max=1_000)),
        "client_wait_seconds": env.float(
            "CLIENT_WAIT_SECONDS", default.client_wait_seconds, validate=validate.Range(min=1, max=LONGEST_WAIT_SECONDS)
        ),
        "export_seconds": env.float(
            "EXPORT_SECONDS", default.export_seconds, validate=validate.Range(min=1, max=LONGEST_WAIT_SECONDS)
        ),
        "write_wait": env.str("WRITE_WAIT", default.write_wait, validate=OneWordOf(WAITS)),
        "write_wait_seconds": env.float(
            "WRITE_WAIT_SECONDS", default.write_wait_seconds, validate=validate.Range(min=0, max=LONGEST_WAIT_SECONDS)
        ),
        "allowed_hosts": env.list("ALLOWED_HOSTS", list(default.allowed_hosts)),
        "cors_origins": env.list("CORS_ORIGINS", list(default.cors_origins)),
        "log_level": env.str("LOG_LEVEL", default.log_level, validate=OneWordOf(LOG_LEVELS)),
        "log_format": env.str("LOG_FORMAT", default.log_format, validate=OneWordOf(LOG_FORMATS)),
        "backup_dir": env.str("BACKUP_DIR", ""),
        "backup_every": env.str("BACKUP_EVERY", "", validate=are_times),
        "backup_keep": env.int("BACKUP_KEEP", default.backup_keep, validate=validate.Range(min=1, max=10_000)),
        "backup_key": env.str("BACKUP_KEY", default.backup_key),
        "backup_key_file": env.str("BACKUP_KEY_FILE", default.backup_key_file),
        "migration_backup": env.bool("MIGRATION_BACKUP", default.migration_backup),
    }
    seal(env)
    for name in ("engine_records", "write_wait", "log_level", "log_format"):
        values[name] = values[name].lower()
    values["allowed_hosts"] = _read_each("ALLOWED_HOSTS", values["allowed_hosts"], HostPattern.parse, A_HOST)
    values["cors_origins"] = _read_each("CORS_ORIGINS", values["cors_origins"], OriginPattern.parse, AN_ORIGIN)
    values["data_dir"] = values["data_dir"].resolve()
    values["backup_dir"] = Path(values["backup_dir"]).resolve() if values["backup_dir"] else None
    values["backup_every"] = BackupTimes.parse(values["backup_every"]) if values["backup_every"] else None
    if values["backup_every"] and not values["backup_dir"]:
        raise ConfigurationError(
            "Wrong settings: RAG_BACKUP_EVERY is set and RAG_BACKUP_DIR is not", field="RAG_BACKUP_DIR"
        )
    if values["catalog_url"].startswith(SQLITE):
        values["catalog_url"] = SQLITE + str(Path(values["catalog_url"].removeprefix(SQLITE)).resolve())
    settings = WrapperSettings(**values)
    for variable, url, schemes in (
        ("RAG_CHROMA_URL", settings.chroma_url, ("http://", "https://")),
        ("RAG_CATALOG_URL", settings.catalog_url, (SQLITE, *POSTGRESQL)),
    ):
        if url and not url.startswith(schemes):
            raise ConfigurationError(f"Wrong settings: {variable} must start with {' or '.join(schemes)}")
    _check_chroma(settings)
    _check_pair(settings)
    _check_schema(settings)
    return settings


def read_log_settings() -> tuple[str, str]:
    """Return the level and the format of the log, the default for what is wrong: what is wrong has to be told, too."""
    default = WrapperSettings()
    found = []
    for name, words, instead in (
        ("LOG_LEVEL", LOG_LEVELS, default.log_level),
        ("LOG_FORMAT", LOG_FORMATS, default.log_format),
    ):
        word = os.environ.get(f"{PREFIX}{name}", "").lower()
        found.append(word if word in words else instead)
    return found[0], found[1]


def _check_pair(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when the service has a certificate and no key, or a key and no certificate."""
    given = {"RAG_TLS_CERT": bool(settings.tls_cert), "RAG_TLS_KEY": bool(settings.tls_key)}
    for variable, other in (("RAG_TLS_CERT", "RAG_TLS_KEY"), ("RAG_TLS_KEY", "RAG_TLS_CERT")):
        if given[variable] and not given[other]:
            raise ConfigurationError(f"Wrong settings: {variable} is set and {other} is not: TLS needs both")


def _check_schema(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when the catalogue cannot be in a schema of that name."""
    if settings.catalog_schema and not SCHEMA_NAME.fullmatch(settings.catalog_schema):
        raise ConfigurationError(
            "Wrong settings: RAG_CATALOG_SCHEMA has up to 63 small letters of ASCII, digits and _, no digit first, "
            "and no schema of PostgreSQL's own (pg_…, information_schema)",
            field="RAG_CATALOG_SCHEMA",
        )
    if settings.catalog_schema not in ("", OWN_SCHEMA) and not settings.catalog_url.startswith(POSTGRESQL):
        raise ConfigurationError(
            "Wrong settings: RAG_CATALOG_SCHEMA is of a PostgreSQL database, and RAG_CATALOG_URL names none",
            field="RAG_CATALOG_SCHEMA",
        )


def _check_chroma(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when a Chroma server could not be asked with these; the sentence has no token."""
    if reason := _chroma_fault(settings):
        raise ConfigurationError(f"Wrong settings: {reason}")


def _chroma_fault(settings: WrapperSettings) -> str:
    try:
        url = urlsplit(settings.chroma_url)
        has_host = bool(url.hostname) and url.port != 0
    except ValueError:
        has_host = False
    if settings.chroma_url and not has_host:
        return "RAG_CHROMA_URL has no host, or no port that could be one"
    if "@" in url.netloc or url.query or url.fragment:
        return (
            "RAG_CHROMA_URL holds more than an address: a user and password, or what comes after ? and #, are not "
            "sent. A token belongs into RAG_CHROMA_TOKEN"
        )
    if settings.chroma_token and not TOKEN.fullmatch(settings.chroma_token):
        return "RAG_CHROMA_TOKEN may hold letters, digits and punctuation of ASCII only"
    if not HEADER_NAME.fullmatch(settings.chroma_token_header):
        return "RAG_CHROMA_TOKEN_HEADER is not the name of a header"
    if settings.chroma_ca_file:
        try:
            ssl.create_default_context(cafile=settings.chroma_ca_file)
        except OSError as error:
            return f"RAG_CHROMA_CA_FILE cannot be read as PEM: {error.strerror or error}"
    if not settings.chroma_url:
        for variable, is_set in (
            ("RAG_CHROMA_TOKEN", bool(settings.chroma_token)),
            ("RAG_CHROMA_CA_FILE", bool(settings.chroma_ca_file)),
            ("RAG_CHROMA_TENANT", settings.chroma_tenant != WrapperSettings.chroma_tenant),
            ("RAG_CHROMA_DATABASE", settings.chroma_database != WrapperSettings.chroma_database),
        ):
            if is_set:
                return f"{variable} is of a Chroma server, and RAG_CHROMA_URL names none"
    return ""


def _read_each(name: str, given: list[str], parse: Callable[[str], object], form: str) -> tuple[str, ...]:
    """Parse each value. Raises ConfigurationError naming the first that does not have the form."""
    found = tuple(each.strip() for each in given if each.strip())
    for each in found:
        try:
            parse(each)
        except ValueError:
            raise ConfigurationError(f"Wrong settings: RAG_{name}: '{each}' is not {form}") from None
    return found
