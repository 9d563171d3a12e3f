"""The models of a service: which one a call is for."""

from __future__ import annotations

from schemas.errors import InvalidInputError
from schemas.names import MAX_MODEL_CHARACTERS, is_model_name


class UnknownModelError(InvalidInputError):
    """The connection has one model, and another one was asked for."""

    code = "unknown_model"

    def __init__(self, provider: str, asked: str, known: str) -> None:
        super().__init__(
            f"The provider '{provider}' has only the model '{known}', not '{asked}'",
            field="model",
            provider=provider,
            allowed=[known],
            error_type="not_found",
        )


def checked_model(model: str) -> str:
    """The name of a model as a call gives it: it is sent as it is, whatever it says. Raises InvalidInputError."""
    if not is_model_name(model):
        raise InvalidInputError(
            f"model must have 1 to {MAX_MODEL_CHARACTERS} printable characters", code="invalid_field", field="model"
        )
    return model
