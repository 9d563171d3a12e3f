"""Embeddings from any server that speaks OpenAI's protocol: OpenAI, vLLM, LM Studio, llama.cpp, LocalAI, …"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from providers.base import ProviderContext, Registry
from providers.embeddings.remote import RemoteEmbeddingProvider
from providers.models import models_of
from providers.outbound.optional_fields import OptionalFields
from providers.outbound.recognition import Sign
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import ModelInfo
from schemas.errors import ConfigurationError
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
        self._optional: dict[str, Any] = {"encoding_format": "base64"}
        if self.config.get("dimension") is not None:
            self._optional["dimensions"] = self.config["dimension"]
        self._fields = OptionalFields(self._service, if_named=["dimensions"])

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("embedding-openai")

    def models(self) -> list[ModelInfo]:
        answer = self._service.get("/models")
        listed = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._unusable("no list of models")
        return models_of(listed, self.kind)

    def _ask(self, model: str, given: list[str] | str) -> list[Vector]:
        batch = [given] if isinstance(given, str) else given
        answer = self._fields.post("/embeddings", {"model": model, "input": given}, self._optional)
        items = self._list_of(answer, "data", len(batch))
        if not all(isinstance(item, dict) for item in items):
            raise self._unusable("without a list of objects under 'data'")
        # `index` is the protocol; servers that leave it out altogether answer in the order of the question.
        by_index = {str(item.get("index", position)): item for position, item in enumerate(items)}
        try:
            ordered = [by_index[str(position)] for position in range(len(batch))]
        except KeyError as exc:
            raise self._unusable("embeddings whose 'index' does not number the texts") from exc
        vectors = [self._vector_of(item.get("embedding"), text) for item, text in zip(ordered, batch, strict=True)]
        refusal, wanted = self._fields.refused.get("dimensions"), self.config.get("dimension")
        if refusal is not None and any(len(vector) != wanted for vector in vectors):
            raise ConfigurationError(f"The model has vectors of one length only. {refusal.message}", **refusal.details)
        return vectors

    def _vector_of(self, value: Any, text: str) -> Vector:
        if not isinstance(value, str):
            return super()._vector_of(value, text)
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)
        except ValueError as exc:
            raise self._unusable_for(text, "an embedding that is not base64 of float32 numbers") from exc


def register(registry: Registry) -> None:
    registry.register(OpenAIProvider)
