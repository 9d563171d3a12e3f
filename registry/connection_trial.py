"""Trial of a connection before it is trusted: stage by stage, within one time limit, on the path of real use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, cast

import structlog

from providers.base import Provider, ProviderContext
from providers.chat.base import ChatProvider
from providers.embeddings.base import EmbeddingProvider, UnusableVectorError
from providers.outbound import deadlines
from providers.outbound.addresses import split_url
from providers.outbound.call_sizes import TEXTS_A_CALL
from providers.outbound.network import DEFAULT_PORTS, Network
from providers.outbound.redaction import Redactor
from registry.placeholders.resolving import Placeholders, UnresolvedPlaceholderError
from registry.placeholders.secret_fields import secret_faults
from registry.provider_registry import ProviderRegistry
from registry.trial_diagnosis import (
    MOVED,
    OF_STAGE,
    RECOGNISED,
    USUAL,
    Diagnosis,
    diagnosis_of,
    error_type_of,
    recognised,
    unrecognised,
    unusable,
)
from schemas.access.callers import carried
from schemas.configuration import JsonSchema, faults, secrets, tidied
from schemas.connections import (
    FAILED,
    PASSED,
    SKIPPED,
    STAGES,
    Fault,
    InvalidConfigurationError,
    ModelInfo,
    Stage,
    TestReport,
)
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.threads import begin_thread

log = structlog.get_logger(__name__)

METHODS = {"rag": "list_collections", "embedding": "embed_text", "llm": "complete_chat", "rerank": "rerank_texts"}
MAX_COLLECTIONS = 1000
MAX_TEXT_CHARS = 512

_PASSED = {
    "config": "The configuration fits the provider",
    "placeholders": "All placeholders can be resolved",
    "address": "The address is allowed",
    "connect": "The service accepts connections",
    "authenticate": "The service answers, with these credentials",
    "capability": "The service does what it is for",
}
_NOT_REACHED = "Not reached"
_NOT_KNOWN = "The service does not know what it is asked, whatever the credentials"
_NOT_ASKED = "Only the models were asked for"
_WITHOUT_CREDENTIALS = "The service answers; no credentials were given"
_NO_ADDRESS = "This provider works without a connection to another host"


def test_connection(*asked: Any, **options: Any) -> TestReport:
    """Return the report of `trial`, which takes the same arguments."""
    *_, report = trial(*asked, **options)
    return cast(TestReport, report)


def trial(
    registry: ProviderRegistry,
    placeholders: Placeholders,
    context: ProviderContext,
    kind: str,
    provider: str,
    config: Mapping[str, Any],
    *,
    seconds: float,
    clock: Callable[[], float],
    takes_typed: bool = True,
    for_models: bool = False,
) -> Generator[Stage | TestReport]:
    """Connect as real use would: yield each stage when it has ended, and at last the report with all of them.

    `clock` counts seconds. Unless it `takes_typed` secrets, only placeholders may stand for them. With `for_models` the
    connection is only asked which models it has. The report comes within `seconds` even when something hangs that
    closing our sockets does not end; its thread is then abandoned. Raises ProviderNotFoundError when there is no such
    provider, NoThreadError, and nothing else.
    """
    schema = _schema_of(registry, kind, provider)
    with context.network.within(seconds) as network:
        ends_at = time.monotonic() + seconds
        run = _Run(registry, placeholders, replace(context, network=network), kind, provider, schema, clock)
        run.for_models, run.takes_typed = for_models, takes_typed
        begin_thread("connection-test", carried(run), config)
        told = 0
        with suppress(Empty):
            while (stage := run.ended.get(timeout=max(0.0, ends_at - time.monotonic()))) is not None:
                told += 1
                yield stage
        report = run.report()
        yield from report.stages[told:]
        yield report


def _schema_of(registry: ProviderRegistry, kind: str, provider: str) -> JsonSchema:
    entry = registry.entry(provider, kind)
    return entry.provider.connection_schema() if entry.provider else {}


class _StageFailedError(Exception):
    def __init__(self, error_type: str, wrong: tuple[Fault, ...] = (), diagnosis: Diagnosis | None = None) -> None:
        super().__init__(error_type)
        self.error_type = error_type
        self.faults = wrong
        self.diagnosis = diagnosis or USUAL[error_type]


class _Run:
    """One trial in a thread of its own; `report` returns at any time how far it came.

    `ended` has each stage when it has ended, and None at the end of the trial.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        placeholders: Placeholders,
        context: ProviderContext,
        kind: str,
        provider: str,
        schema: JsonSchema,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._placeholders = placeholders
        self._context = context
        self._network: Network = context.network
        self._kind = kind
        self._provider = provider
        self._schema = schema
        self._clock = clock
        self._lock = threading.Lock()
        self._began = self._stage_began = clock()
        self._stages: list[Stage] = []
        self.ended: SimpleQueue[Stage | None] = SimpleQueue()
        self._error_type: str | None = None
        self._is_closed = False
        self._redact = Redactor()
        self._address: str | None = None
        self._has_credentials = False
        self.for_models = False
        self.takes_typed = True
        self._told = 0
        self._resolved: dict[str, Any] = {}
        self._said: dict[str, Any] = {}

    def __call__(self, config: Mapping[str, Any]) -> None:
        try:
            self._run(config)
        except _StageFailedError:
            log.info("a connection test failed", provider=self._provider, error_type=self._error_type)
        except Exception as error:
            # No traceback: a library's message may quote what it was given.
            log.error(
                "a connection test ended in a way of its own", provider=self._provider, error=type(error).__name__
            )
        finally:
            self.ended.put(None)

    def report(self) -> TestReport:
        """Return the report as far as the trial came; what the thread does later no longer changes it."""
        with self._lock:
            self._is_closed = True
            stages = list(self._stages)
            error_type = self._error_type
            if error_type is None and len(stages) < len(STAGES):
                error_type, name = "timeout", STAGES[len(stages)]
                late = OF_STAGE.get((name, error_type)) or USUAL[error_type]
                stages.append(self._failed(name, _StageFailedError(error_type, diagnosis=late)))
            said = dict(self._said)
        stages += [Stage(name, SKIPPED, 0.0, _NOT_REACHED) for name in STAGES[len(stages) :]]
        common = (self._provider, self._kind, _milliseconds(self._clock() - self._began), tuple(stages))
        if error_type:
            [message] = [each.message for each in stages if each.verdict == FAILED]
            return TestReport(False, *common, message=message, error_type=error_type)
        listed = said.pop("collections", None)
        found = (
            tuple(self._collection(each) for each in listed[:MAX_COLLECTIONS])
            if isinstance(listed, list | tuple)
            else None
        )
        models = said.pop("models", None)
        return TestReport(
            True,
            *common,
            method=METHODS.get(self._kind),
            details=self._plain(said),
            collections_count=None if found is None else said.get("collections_count", len(found)),
            collections=found,
            models=None if models is None else tuple(self._model(each) for each in models),
        )

    def _collection(self, said: Any) -> dict[str, Any]:
        """Spell one collection; a provider may also list bare names."""
        told = said if isinstance(said, Mapping) else {"name": said}
        count, metadata = told.get("count"), told.get("metadata")
        return {
            "name": self._clean(str(told.get("name", ""))),
            "count": count if isinstance(count, int) else None,
            "metadata": self._plain(self._redact(dict(metadata) if isinstance(metadata, Mapping) else {})),
        }

    def _model(self, model: ModelInfo) -> ModelInfo:
        name, description = self._clean(model.id), self._clean(model.description)
        return replace(model, id=name, name=self._clean(model.name), description=description)

    def _run(self, config: Mapping[str, Any]) -> None:
        with self._stage("config"):
            self._check_config(config)
        with self._stage("placeholders"):
            resolved = self._resolved = self._resolve(config)
            self._check_resolved(resolved)
            self._has_credentials = any(resolved.get(name) for name in secrets(self._schema))
            provider = self._registry.provider(self._kind, self._provider)
            address = provider.address(resolved)
            context = replace(self._context, redactor=self._redact, is_trial=True)
        if address is None:
            self._skip("address", _NO_ADDRESS)
            self._skip("connect", _NO_ADDRESS)
        else:
            with self._stage("address"):
                self._judge(address)
            with self._stage("connect"):
                self._network.reach(address, None).close()
            self._address = address
        with ExitStack() as opened:
            with self._stage("authenticate"):
                connection = self._registry.connect(self._kind, self._provider, resolved, context)
                opened.callback(connection.close)
                said = {"models": _models(connection)} if self.for_models else connection.check()
            if self.for_models:
                self._skip("capability", _NOT_ASKED, said)
                return
            with self._stage("capability"):
                said = {**said, **connection.try_out()}
                _check_direction(connection)
                with self._lock:
                    self._said = said

    def _check_config(self, config: Any) -> None:
        try:
            self._registry.provider(self._kind, self._provider)
        except ConfigurationError as error:
            cannot = Diagnosis(USUAL["invalid_config"].message, error.message)
            raise _StageFailedError("invalid_config", diagnosis=cannot) from error
        wrong = faults(tidied(config) if isinstance(config, Mapping) else config, self._schema, placeholders=True)
        if isinstance(config, Mapping):
            wrong += secret_faults(tidied(config), self._schema, typed=self.takes_typed)
        if wrong:
            raise _StageFailedError("invalid_config", tuple(wrong))

    def _resolve(self, config: Mapping[str, Any]) -> dict[str, Any]:
        provider = self._registry.provider(self._kind, self._provider)
        resolved, self._redact = self._placeholders.resolve(tidied(config), self._schema, provider.address)
        return resolved

    def _check_resolved(self, resolved: Mapping[str, Any]) -> None:
        wrong = faults(resolved, self._schema)
        if wrong:
            raise _StageFailedError("invalid_config", tuple(wrong))

    def _judge(self, address: str) -> None:
        parts = split_url(address)
        if self._network.proxy_for(address) is None:
            port = parts.port or DEFAULT_PORTS[parts.scheme]
            self._network.endpoints(parts.scheme, str(parts.hostname), port)

    def _plain(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Keep only numbers, booleans and texts, since a peer may send anything."""
        cleaned = {name: self._clean(value) if isinstance(value, str) else value for name, value in said.items()}
        return {name: value for name, value in cleaned.items() if isinstance(value, str | bool | int | float)}

    def _clean(self, text: str) -> str:
        # Unprintable characters go first: they could hide a secret from the redactor.
        seen = "".join(each for each in text if each.isprintable())
        return str(self._redact(seen))[:MAX_TEXT_CHARS]

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._stage_began = self._clock()
        try:
            yield
        except BaseException as error:  # a library may even try to end its thread
            failed = error if isinstance(error, _StageFailedError) else self._explained(name, error)
            if (name, failed.error_type) == ("authenticate", "not_found"):
                # Whether the credentials are right is not known where there is nothing to use them for.
                self._finish(Stage(name, SKIPPED, 0.0, _NOT_KNOWN))
                name = "capability"
            self._finish(self._failed(name, failed), failed.error_type)
            raise failed from error
        latency_ms = _milliseconds(self._clock() - self._stage_began)
        is_open = name == "authenticate" and not self._has_credentials
        message = _WITHOUT_CREDENTIALS if is_open else _PASSED[name]
        if TEXTS_A_CALL in self._said:
            message += f"; it is sent at most {self._said[TEXTS_A_CALL]} texts a call, since it refused more"
        self._finish(Stage(name, PASSED, latency_ms, message))

    def _skip(self, name: str, message: str, said: dict[str, Any] | None = None) -> None:
        with self._lock:
            self._said = said or self._said
        self._finish(Stage(name, SKIPPED, 0.0, message))

    def _finish(self, stage: Stage, error_type: str | None = None) -> None:
        with self._lock:
            if not self._is_closed:
                if (stage.name, error_type) == ("capability", "authentication"):
                    # Some services tell anybody what they are, and ask for credentials only when they are used.
                    stage = replace(stage, name=self._stages.pop().name)
                self._stages.append(stage)
                self._error_type = error_type
                until = len(self._stages) - (stage.name == "authenticate" and error_type is None)
                for each in self._stages[self._told : until]:
                    self.ended.put(each)
                self._told = max(self._told, until)
                return
        raise _StageFailedError("timeout")

    def _failed(self, name: str, failed: _StageFailedError) -> Stage:
        latency_ms = _milliseconds(self._clock() - self._stage_began)
        told = failed.diagnosis
        return Stage(name, FAILED, latency_ms, told.message, told.next_step, failed.faults)

    def _explained(self, name: str, error: BaseException) -> _StageFailedError:
        # Closing the sockets at the limit makes the call fail with all kinds of errors.
        if not self._network.seconds_left():
            return _StageFailedError("timeout")
        if isinstance(error, UnresolvedPlaceholderError | InvalidConfigurationError):
            wrong = tuple(Fault(each["pointer"], each["message"]) for each in error.details["errors"])
            return _StageFailedError("invalid_config", wrong)
        error_type = error_type_of(error)
        told = diagnosis_of(name, error_type, error, has_credentials=self._has_credentials)
        is_redirect = told is MOVED and isinstance(error, RagError) and "status" in error.details
        is_usual = told is USUAL[error_type]
        if is_redirect or error_type == "unknown" or (error_type in RECOGNISED and is_usual):
            told = self._recognised(name, error_type, told)
        if told is USUAL["unknown"] and self._kind != "rag":  # a rag-wrapper's errors have words of its own
            told = unusable(error)
            told = replace(told, message=self._clean(told.message))
        return _StageFailedError(error_type, diagnosis=told)

    def _recognised(self, stage: str, error_type: str, told: Diagnosis) -> Diagnosis:
        if self._address is None:
            return told
        own = self._registry.provider(self._kind, self._provider)
        known = [each.provider for each in self._registry.entries(self._kind) if each.provider is not None]
        answers = partial(self._answers, is_elsewhere=stage == "authenticate" and self._kind != "rag")
        found = recognised(self._network, self._address, own, known, told, answers)
        is_told = told is not USUAL[error_type] or error_type == "network" or own.sign is None
        return found or (told if is_told else unrecognised(own))

    def _answers(self, url: str, seconds: float, *, is_elsewhere: bool) -> bool:
        """Return whether there are models at the URL that was given, or whether the connection works at another path of
        the same host and port, with the same key, where it may be elsewhere."""
        if seconds <= 0 or not (is_elsewhere or url == self._address):
            return False
        config = {**self._resolved, "url": url}
        context = replace(self._context, redactor=self._redact, is_trial=True)
        try:
            with (
                deadlines.within(seconds),
                self._registry.connect(self._kind, self._provider, config, context) as connection,
            ):
                return bool(_models(connection) if url == self._address else connection.check())
        except (RagError, _StageFailedError):
            return False


def _check_direction(connection: Provider) -> None:
    """Raise UnavailableError when a service embeds in vectors of zeros, which no collection of the metric cosine
    takes."""
    if isinstance(connection, EmbeddingProvider) and not connection.embed(["connection test"]).any():
        raise UnavailableError(
            f"The embedding service '{connection.id}' answered a vector of nothing but zeros",
            code=UnusableVectorError.code,
            error_type="unknown",
        )


def _models(connection: Provider) -> list[ModelInfo]:
    if not isinstance(connection, EmbeddingProvider | ChatProvider):
        told = Diagnosis(USUAL["unknown"].message, "This kind of provider has no models.")
        raise _StageFailedError("unknown", diagnosis=told)
    return connection.models()


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 1)
