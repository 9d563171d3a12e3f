"""Embeddings from any server that speaks OpenAI's protocol: OpenAI, vLLM, LM Studio, llama.cpp, LocalAI, …"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from providers.base import ProviderContext, Registry
from providers.embeddings.remote import RemoteEmbeddingProvider
from providers.models import models_of
from providers.outbound.recognition import Sign
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.errors import InvalidInputError
from schemas.records import Vector


class OpenAIProvider(RemoteEmbeddingProvider):
    """Asks `POST {url}/embeddings`. The configuration's `dimension` is a shorter length to ask the model for, None the
    model's own.

    Vectors come as base64 where the server can do it (a quarter of the bytes) and as arrays where it cannot.
    """

    id = "openai"
    display_name = "OpenAI-compatible server"
    sign = Sign("/models", "object", "list")
    description = "Embeddings from OpenAI, vLLM, LM Studio, llama.cpp, LocalAI and others of that protocol"

    def __init__(self, config: Mapping[str, Any], context: ProviderContext | None = None, **options: Any) -> None:
        super().__init__(config, context, **options)
        self._request: dict[str, Any] = {"encoding_format": "base64"}
        if self.config.get("dimension") is not None:
            self._request["dimensions"] = self.config["dimension"]

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("embedding-openai")

    def models(self) -> list[ModelInfo]:
        answer = self._service.get("/models")
        listed = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._unusable("no list of models")
        return models_of(listed, self.kind)

    def _ask(self, model: str, batch: list[str]) -> list[Vector]:
        items = self._list_of(self._post(model, batch), "data", len(batch))
        if not all(isinstance(item, dict) for item in items):
            raise self._unusable("without a list of objects under 'data'")
        # `index` is the protocol; servers that leave it out altogether answer in the order of the question.
        by_index = {str(item.get("index", position)): item for position, item in enumerate(items)}
        try:
            ordered = [by_index[str(position)] for position in range(len(batch))]
        except KeyError as exc:
            raise self._unusable("embeddings whose 'index' does not number the texts") from exc
        return [self._vector_of(item.get("embedding")) for item in ordered]

    def _post(self, model: str, batch: list[str]) -> Any:
        request = self._request
        try:
            return self._service.post("/embeddings", {"model": model, **request, "input": batch})
        except InvalidInputError as error:
            # Strict servers refuse the parameter instead of ignoring it; plain arrays are the protocol's default.
            if "encoding_format" not in request or "encoding_format" not in error.details.get("reason", ""):
                raise
            self._request = {name: value for name, value in request.items() if name != "encoding_format"}
            return self._service.post("/embeddings", {"model": model, **self._request, "input": batch})

    def _vector_of(self, value: Any) -> Vector:
        if not isinstance(value, str):
            return super()._vector_of(value)
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        except ValueError as exc:
            raise self._unusable("an embedding that is not base64 of float32 numbers") from exc


def register(registry: Registry) -> None:
    registry.register(OpenAIProvider)
