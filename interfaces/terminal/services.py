"""The service that a command asks: one that runs, or the data directory of this machine without one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson

from interfaces.service_address import configured_url, network_to, running_service
from interfaces.service_key import service_key
from providers.outbound.answer_streams import event_data, json_object, lines
from providers.outbound.json_client import Answer, JsonClient
from providers.outbound.redaction import Redactor
from providers.rag_wrapper.dialect import ONCE, WrapperDialect
from schemas.errors import ConfigurationError, RagError, UnavailableError
from schemas.settings import (
    WrapperSettings,
    read_registry_settings,
    read_retrieval_settings,
    read_wrapper_settings,
)
from wrapper.engine.data_directory_lock import LOCK_FILE

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.test import TestResponse

LOOK_SECONDS = 2.0
"""How long a service that nobody named may take to show that it is there."""
ANSWER_SECONDS = 120.0
"""How long a service may be silent before it answers."""

SUCCESS = range(200, 300)

Json = dict[str, Any]


class AskedService(ABC):
    """Answers requests for the routes of the service, whoever answers them, at `address`."""

    address: str
    runs: bool
    """Whether it is a service, and not a directory that this process has opened."""

    @abstractmethod
    def asked(self, method: str, path: str, body: Json | None = None) -> bytes:
        """Return the JSON text of an answer. Raise what `WrapperDialect` makes of a refusal."""

    @abstractmethod
    def events(self, path: str, body: Json) -> AbstractContextManager[Iterator[Json]]:
        """Give the events of a streamed answer as they come. Raises as `asked` does, in the middle too."""

    @abstractmethod
    def health(self) -> Json:
        """Return the health report, whatever it says."""

    @abstractmethod
    def close(self) -> None: ...

    def get(self, path: str, **parameters: Any) -> bytes:
        given = {name: value for name, value in parameters.items() if value is not None}
        return self.asked("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Json) -> bytes:
        return self.asked("POST", path, body)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise UnavailableError when the block, which takes an answer apart, finds something missing or of another
        type."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise UnavailableError(f"{self.address} gave an answer that cannot be read") from error


class RunningService(AskedService):
    """A service that is asked over HTTP. Raises InvalidInputError for a malformed URL."""

    runs = True

    def __init__(self, url: str, data_dir: Path | None = None, *, timeout_seconds: float = ANSWER_SECONDS) -> None:
        self.address = url.rstrip("/")
        network = network_to(url, data_dir)
        self._client = JsonClient(
            url,
            WrapperDialect(self.address),
            network=network,
            api_key=service_key(url, network),
            timeout_seconds=timeout_seconds,
            retry=ONCE,
        )

    def asked(self, method: str, path: str, body: Json | None = None) -> bytes:
        return self._client.send(method, path, None if body is None else orjson.dumps(body))

    def events(self, path: str, body: Json) -> AbstractContextManager[Iterator[Json]]:
        return self._client.events(path, body, event_data)

    def health(self) -> Json:
        report: Json = self._client.report("/health")
        return report

    def close(self) -> None:
        self._client.close()


class DataDirectory(AskedService):
    """The same routes in this process, on a data directory that nobody else uses."""

    runs = False

    def __init__(self, app: Flask, data_dir: Path) -> None:
        self._app = app
        self._client = app.test_client()
        self.address = str(data_dir)
        self._dialect = WrapperDialect(self.address)

    def asked(self, method: str, path: str, body: Json | None = None) -> bytes:
        with closing(self._opened(method, path, body)) as response:
            return response.get_data()

    @contextmanager
    def events(self, path: str, body: Json) -> Iterator[Iterator[Json]]:
        with closing(self._opened("POST", path, body)) as response:
            yield self._objects(response)

    def health(self) -> Json:
        with closing(self._client.get("/health")) as response:
            report: Json = response.get_json()
            return report

    def close(self) -> None:
        self._app.extensions["rag.service"].close()

    def _opened(self, method: str, path: str, body: Json | None) -> TestResponse:
        from wrapper.web.audited import BY_COMMAND

        payload = None if body is None else orjson.dumps(body)
        # Nobody knows who typed the command, and it came from no address.
        environ = {"REMOTE_ADDR": "", BY_COMMAND: "1"}
        response = self._client.open(
            path, method=method, data=payload, content_type="application/json", environ_overrides=environ
        )
        if response.status_code in SUCCESS:
            return response
        with closing(response):
            answer = Answer(response.status_code, dict(response.headers), response.get_data())
        raise self._dialect.refused(answer, Redactor(set()), has_key=False)

    def _objects(self, response: TestResponse) -> Iterator[Json]:
        for content in event_data(lines(response.iter_encoded())):
            found = json_object(content)
            if found.get("error"):
                raise self._dialect.refused(Answer(response.status_code, {}, content), Redactor(set()), has_key=False)
            yield found


@contextmanager
def service_to_ask(
    url: str | None, data_dir: Path | None, *, timeout_seconds: float = ANSWER_SECONDS
) -> Iterator[AskedService]:
    """Give the service at `url`; else the one that owns the data directory; else, unless a directory is given, the one
    at the address of the settings; else the directory itself, opened for the length of the block. A service may be
    silent for `timeout_seconds`.

    Raises ConfigurationError when there is neither a service nor a data directory, or another process has the directory
    and serves nothing.
    """
    service = _chosen(url, data_dir, timeout_seconds)
    with closing(service):
        yield service


def _chosen(url: str | None, data_dir: Path | None, timeout_seconds: float) -> AskedService:
    if url is not None:
        return RunningService(url, timeout_seconds=timeout_seconds)
    settings = read_wrapper_settings()
    if data_dir is not None:
        settings = replace(settings, data_dir=data_dir)
    address = running_service(settings.data_dir)
    if address is not None:
        return RunningService(address, settings.data_dir, timeout_seconds=timeout_seconds)
    own = configured_url()
    if data_dir is None and _answers(own):
        return RunningService(own, timeout_seconds=timeout_seconds)
    # Without its catalogue, a new one would be made, and asked in place of that of the settings that are missing.
    if not (settings.data_dir / LOCK_FILE).exists() or not _has_catalogue(settings):
        sentence = f"No data is in {settings.data_dir}"
        if data_dir is None:
            sentence = f"No service answers at {own}, and no data is in {settings.data_dir}"
        raise ConfigurationError(f"{sentence}: start 'rag-wrapper serve', or name a service by --url")
    return _opened(settings)


def _has_catalogue(settings: WrapperSettings) -> bool:
    from wrapper.catalogue_presence import has_catalogue

    return has_catalogue(settings)


def _opened(settings: WrapperSettings) -> DataDirectory:
    # Imported late: together these modules take longer to import than a running service takes to answer.
    from interfaces.compose import create_app

    quiet = replace(settings, log_level="error")
    app = create_app(quiet, read_registry_settings(), read_retrieval_settings(), serves=False)
    return DataDirectory(app, settings.data_dir)


def _answers(url: str) -> bool:
    client = JsonClient(url, WrapperDialect(url), network=network_to(url), timeout_seconds=LOOK_SECONDS, retry=ONCE)
    with closing(client):
        try:
            client.report("/live")
        except RagError:
            return False
        return True
