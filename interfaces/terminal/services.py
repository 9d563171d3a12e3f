"""The running service that a command asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from urllib.parse import urlencode

import orjson

from interfaces.service_address import network_to
from interfaces.service_key import service_key
from providers.outbound.answer_streams import event_data
from providers.outbound.json_client import JsonClient
from providers.rag_wrapper.dialect import ONCE, WrapperDialect

ANSWER_SECONDS = 120.0
"""How long a service may be silent before it answers."""

Json = dict[str, Any]


class RunningService:
    """A service that is asked over HTTP, at `address`. Raises InvalidInputError for a malformed URL."""

    def __init__(self, url: str, *, timeout_seconds: float = ANSWER_SECONDS) -> None:
        self.address = url.rstrip("/")
        network = network_to(url)
        self._client = JsonClient(
            url,
            WrapperDialect(self.address),
            network=network,
            api_key=service_key(url, network),
            timeout_seconds=timeout_seconds,
            retry=ONCE,
        )

    def asked(self, method: str, path: str, body: Json | None = None) -> bytes:
        """Return the JSON text of an answer. Raise what `WrapperDialect` makes of a refusal."""
        return self._client.send(method, path, None if body is None else orjson.dumps(body))

    def get(self, path: str, **parameters: Any) -> bytes:
        given = {name: value for name, value in parameters.items() if value is not None}
        return self.asked("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Json) -> bytes:
        return self.asked("POST", path, body)

    def events(self, path: str, body: Json) -> AbstractContextManager[Iterator[Json]]:
        """Give the events of a streamed answer as they come. Raises as `asked` does, in the middle too."""
        return self._client.events(path, body, event_data)

    def health(self) -> Json:
        """Return the health report, whatever it says."""
        report: Json = self._client.report("/health")
        return report

    def reading(self) -> AbstractContextManager[None]:
        """Raise UnavailableError when the block, which takes an answer apart, finds something missing or of another
        type."""
        return self._client.reading()

    def close(self) -> None:
        self._client.close()


@contextmanager
def service_to_ask(url: str, *, timeout_seconds: float = ANSWER_SECONDS) -> Iterator[RunningService]:
    """Give the service at `url`, which may be silent for `timeout_seconds`."""
    with closing(RunningService(url, timeout_seconds=timeout_seconds)) as service:
        yield service
