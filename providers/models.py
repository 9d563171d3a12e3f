"""The models of a service, and the one that a call is for."""

from __future__ import annotations

import re
from typing import Any

from schemas.connections import ModelInfo
from schemas.errors import InvalidInputError
from schemas.names import MAX_MODEL_CHARACTERS, is_model_name

MAX_MODELS = 1000
_EMBEDDING = re.compile(r"embed|minilm|bert|(?:^|[-_/:.])(?:bge|e5|gte|jina|mxbai|nomic)(?:[-_/:.]|$)", re.IGNORECASE)
_TOKEN_FIELDS = ("max_model_len", "max_context_length", "context_length", "context_window", "max_tokens")
_CAPABILITIES = {"embedding": ("embeddings",), "llm": ("chat",)}


class UnknownModelError(InvalidInputError):
    """The connection has only these models, and the call names another."""

    code = "unknown_model"

    def __init__(self, provider: str, asked: str, *known: str) -> None:
        models = ("the model " if len(known) == 1 else "the models ") + " and ".join(f"'{each}'" for each in known)
        super().__init__(
            f"The provider '{provider}' has only {models}, not '{asked}'",
            field="model",
            provider=provider,
            allowed=list(known),
            error_type="not_found",
        )


def checked_model(model: str) -> str:
    """Return the name of a model unchanged. Raises InvalidInputError when it is empty, too long or not printable."""
    if not is_model_name(model):
        raise InvalidInputError(
            f"model must have 1 to {MAX_MODEL_CHARACTERS} printable characters", code="invalid_field", field="model"
        )
    return model


def models_of(listed: Any, kind: str) -> list[ModelInfo]:
    """Return the models of a service's list that are of a kind (`embedding`, `llm`), sorted by id.

    Protocols do not say what a model is for, so its name decides. Where no name speaks of embeddings, all models may be
    for them.
    """
    found = [each for each in map(_model, listed) if each is not None] if isinstance(listed, list) else []
    fitting = [each for each in found if each.type == kind]
    if kind == "embedding" and not fitting:
        fitting = [_as(each, kind) for each in found]
    return sorted(fitting, key=lambda each: each.id)[:MAX_MODELS]


def one_model(name: str, kind: str, max_tokens: int | None = None, description: str = "") -> ModelInfo:
    return ModelInfo(name, name, kind, _CAPABILITIES[kind], max_tokens, description)


def _model(listed: Any) -> ModelInfo | None:
    """Return a model described in the words of OpenAI's protocol or of Ollama's, None when it has no valid name."""
    if not isinstance(listed, dict):
        return None
    name = listed.get("id") or listed.get("model") or listed.get("name")
    if not isinstance(name, str) or not is_model_name(name):
        return None
    details = listed.get("details")
    told = details if isinstance(details, dict) else {}
    kind = "embedding" if _EMBEDDING.search(f"{name} {told.get('family', '')} {listed.get('type', '')}") else "llm"
    tokens = next((listed[field] for field in _TOKEN_FIELDS if _is_count(listed.get(field))), None)
    words = (listed.get("description"), listed.get("owned_by"), told.get("parameter_size"))
    description = next((word for word in words if isinstance(word, str)), "")
    return one_model(name, kind, tokens, description)


def _as(model: ModelInfo, kind: str) -> ModelInfo:
    return one_model(model.id, kind, model.max_tokens, model.description)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
