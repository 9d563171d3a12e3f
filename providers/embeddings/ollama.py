"""Embeddings from an Ollama server, in its own protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from providers.base import ProviderContext, Registry
from providers.embeddings.remote import RemoteEmbeddingProvider
from providers.models import models_of
from providers.outbound.recognition import Sign
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.errors import ConfigurationError
from schemas.records import Vector


class OllamaProvider(RemoteEmbeddingProvider):
    """Asks `POST {url}/api/embed`, or `/api/embeddings` one text at a time when the server is too old for the first.

    Vectors have length 1 by either route. Ollama cuts texts that exceed the model's context.
    """

    id = "ollama"
    display_name = "Ollama"
    sign = Sign("/api/version", "version")
    description = "Embeddings from an Ollama server"

    def __init__(self, config: Mapping[str, Any], context: ProviderContext | None = None, **options: Any) -> None:
        super().__init__(config, context, **options)
        self._has_batch_route = True

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("embedding-ollama")

    def models(self) -> list[ModelInfo]:
        answer = self._service.get("/api/tags")
        listed = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._unusable("no list of models")
        return models_of(listed, self.kind)

    def _ask(self, model: str, given: list[str] | str) -> list[Vector]:
        batch = [given] if isinstance(given, str) else given
        if self._has_batch_route:
            try:
                answer = self._post("/api/embed", model, {"input": given})
            except _RouteMissingError:
                self._has_batch_route = False
            else:
                return list(map(self._vector_of, self._list_of(answer, "embeddings", len(batch)), batch))
        return [self._ask_for_one(model, text) for text in batch]

    def _ask_for_one(self, model: str, text: str) -> Vector:
        answer = self._post("/api/embeddings", model, {"prompt": text})
        vector = self._vector_of(answer.get("embedding") if isinstance(answer, dict) else None, text)
        # The newer route normalises and this one does not; an upgrade of the server must not change distances.
        length = float(np.linalg.norm(vector))
        return vector / np.float32(length) if 0 < length < math.inf else vector

    def _post(self, route: str, model: str, body: dict[str, Any]) -> Any:
        try:
            return self._service.post(route, {"model": model, **body})
        except ConfigurationError as error:
            if error.details.get("error_type") != "not_found":
                raise
            # An unknown model is a 404 too, but one that names the model.
            if "model" in error.details.get("reason", ""):
                raise ConfigurationError(
                    f"Ollama has no model '{model}'; get it with: ollama pull {model}", **error.details
                ) from error
            raise _RouteMissingError(error.message, **error.details) from error


class _RouteMissingError(ConfigurationError):
    """The server has no such route."""


def register(registry: Registry) -> None:
    registry.register(OllamaProvider)
